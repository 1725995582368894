// SPDX-License-Identifier: Apache-2.0

//go:build loaders

package main

import "embed"

// loaders has btrun for each architecture, compressed. The release's build makes the files and names them to the Go
// command as an overlay; they are not in the tree.
//
//go:embed loaders/*.gz
var loaders embed.FS
