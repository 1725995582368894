// SPDX-License-Identifier: Apache-2.0

package stacks

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// TestReload checks that stacks are unwound by tables for an object that replaces another one, whether programs send raw
// stacks or not.
func TestReload(t *testing.T) {
	exe := compileC(t)
	for _, raw := range []string{"0", "64,5000"} {
		t.Run("raw stacks "+raw, func(t *testing.T) {
			dir := t.TempDir()
			object, next, result := filepath.Join(dir, "x.o"), filepath.Join(dir, "next.o"), filepath.Join(dir, "result")
			for name, path := range map[string]string{"@before": object, "@after": next} {
				script := "config = { unstable_dw_ustack = enable }\nuprobe:" + exe + ":leaf { " + name + "[dw_ustack()] = count(); }"
				if out, err := exec.Command(filepath.Join(bin, "btc"), "compile", "-e", script, "-o", path).CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
			}
			start(t, []string{exe})
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, filepath.Join(bin, "btrun"), "-q", "--raw-stacks", raw, "--reload="+result, object)
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() {
				cmd.Wait()
				close(ended)
			}()
			for running := true; running; time.Sleep(50 * time.Millisecond) {
				text, _ := os.ReadFile(result)
				if len(text) > 0 {
					break
				}
				select {
				case <-ended:
					running = false
				default:
				}
			}
			time.Sleep(500 * time.Millisecond)
			if err := os.Rename(next, object); err != nil {
				t.Fatal(err)
			}
			os.Remove(filepath.Join(dir, "x.json")) // the manifest of the first one
			text, err := exec.CommandContext(ctx, filepath.Join(bin, "btrun"), "--request-reload", strconv.Itoa(cmd.Process.Pid), "--reload="+result).CombinedOutput()
			time.Sleep(500 * time.Millisecond)
			cmd.Process.Signal(syscall.SIGINT)
			<-ended
			if err != nil {
				t.Fatalf("%v: %s\n%s", err, text, out.String())
			}
			for _, name := range []string{"@before", "@after"} {
				if !regexp.MustCompile(name + `\[\n +leaf\+\d+\n +f7\+\d+\n +f6\+\d+\n +f5\+\d+\n +f4\+\d+\n +f3\+\d+\n +f2\+\d+\n +f1\+\d+\n +main\+`).MatchString(out.String()) {
					t.Errorf("%s has no whole stack", name)
				}
			}
			if t.Failed() {
				t.Log(out.String())
			}
		})
	}
}
