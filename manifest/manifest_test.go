// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"fmt"
	"testing"

	"btc/manifest"
)

func ExampleParse() {
	_, err := manifest.Parse([]byte(`{"schema": "btc/2"}`))
	fmt.Println(err != nil)
	// Output: true
}

// TestVersion checks that a manifest of a newer major version is rejected.
func TestVersion(t *testing.T) {
	if _, err := manifest.Parse([]byte(`{"schema": "` + manifest.Version + `0"}`)); err == nil {
		t.Error("no error for another version")
	}
}
