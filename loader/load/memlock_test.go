package load

import "testing"

func TestCountsMemlock(t *testing.T) {
	for release, want := range map[string]bool{
		"5.10.0-28-amd64": true, "4.18.0-553.el8_10.x86_64": true, "5.11.0": false, "5.15.0-1": false,
		"6.1.0-rc3+": false, "6.18.44": false, "strange": true,
	} {
		if got := countsMemlock(release); got != want {
			t.Errorf("%s: %v", release, got)
		}
	}
}
