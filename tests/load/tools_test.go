package load

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// tool finds a program; distributions keep bpftool where only root looks.
func tool(t *testing.T, name string) string {
	t.Helper()
	for _, path := range []string{name, "/usr/sbin/" + name, "/sbin/" + name} {
		if found, err := exec.LookPath(path); err == nil {
			return found
		}
	}
	t.Skipf("skipped: %s is not installed", name)
	return ""
}

// TestReaders gives each object to programs that read objects.
func TestReaders(t *testing.T) {
	for _, command := range [][]string{
		{"bpftool", "gen", "skeleton"},
		{"bpftool", "btf", "dump", "file"},
		{"llvm-objdump", "-d", "-r"},
	} {
		t.Run(strings.Join(command, " "), func(t *testing.T) {
			bin := tool(t, command[0])
			list := compiled(t)
			dir := objects(t, list)
			each(list, func(s *script) {
				cmd := exec.Command(bin, append(command[1:], filepath.Join(dir, s.name+".o"))...)
				var stderr bytes.Buffer
				cmd.Stderr = &stderr
				out, err := cmd.Output()
				if err != nil || stderr.Len() > 0 || len(out) == 0 {
					t.Errorf("%s: %v: %s", s.name, err, stderr.Bytes())
				}
			})
		})
	}
}

// loadAll loads objects with bpftool in a mount namespace of its own, where the
// file system that holds the programs dies with the command.
const loadAll = `
mount -t bpf bpf "$1" || exit 1
shift
bpftool=$1
shift
for object; do
	name=$(basename "$object" .o)
	if message=$("$bpftool" prog loadall "$object" /sys/fs/bpf/"$name" 2>&1); then
		rm -r /sys/fs/bpf/"$name"
	else
		echo "== $name"
		echo "$message" | tail -n 12
	fi
done
`

// TestBpftoolLoads has libbpf, through bpftool, load each object as it is: no
// loader of ours has set anything. Objects with programs that this kernel
// lacks something for are left out: bpftool loads all programs or none.
func TestBpftoolLoads(t *testing.T) {
	lacking := map[string]bool{}
	for _, r := range native(t) {
		if !r.OK {
			lacking[r.Object] = true
		}
	}
	bin := tool(t, "bpftool")
	tool(t, "unshare")
	list := compiled(t)
	dir := objects(t, list)
	args := []string{"--mount", "--propagation", "private", "sh", "-c", loadAll, "sh", "/sys/fs/bpf", bin}
	n := 0
	for _, s := range list {
		if !lacking[s.name] {
			n++
			args = append(args, filepath.Join(dir, s.name+".o"))
		}
	}
	if _, err := os.Stat("/sys/fs/bpf"); err != nil {
		t.Skip("skipped: no place to mount a bpf file system: ", err)
	}
	out, err := exec.Command("unshare", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if len(out) > 0 {
		t.Errorf("bpftool does not load:\n%s", out)
	}
	t.Logf("bpftool loads %d objects; %d left out", n, len(list)-n)
}
