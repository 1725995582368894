// SPDX-License-Identifier: Apache-2.0

//go:build !loaders

package main

import "embed"

// loaders has no files: only make release builds btc with the tag loaders, after btrun.
var loaders embed.FS
