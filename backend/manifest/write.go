// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"bytes"
	"encoding/json"

	"btc/internal/manifest"
)

// Marshal validates m and returns its file: indented JSON with a newline at the
// end. The same manifest makes the same bytes.
func Marshal(m *manifest.Manifest) ([]byte, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	err := e.Encode(m.File())
	return b.Bytes(), err
}
