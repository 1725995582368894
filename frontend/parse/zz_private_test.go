package parse

import (
	"os"
	"path/filepath"
	"testing"

	"btc/frontend/diag"
)

func TestPrivate(t *testing.T) {
	files, _ := filepath.Glob(os.Getenv("BTDIR"))
	bad := 0
	for _, f := range files {
		text, _ := os.ReadFile(f)
		var l diag.List
		s := Script(diag.NewSource(f, string(text)), &l)
		if s == nil || l.Len() > 0 {
			bad++
			t.Errorf("%s: %v", f, l.Err())
		}
	}
	t.Logf("%d files, %d bad", len(files), bad)
}
