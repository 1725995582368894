package check

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// FuzzCheck proves that no text makes the checker panic, and that a script
// without errors has all its facts.
func FuzzCheck(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, s := range txtar.Parse(data).Files {
			f.Add(string(s.Data))
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<14 {
			t.Skip("skipped: long texts are slow and show nothing more")
		}
		if info, l := checkText(text); !l.HasErrors() {
			complete(t, info)
		}
	})
}
