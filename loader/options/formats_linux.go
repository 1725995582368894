// SPDX-License-Identifier: Apache-2.0

package options

import "btc/loader/output"

func formatNames() []string { return output.Names() }

func formatUsage() string { return output.Usage() }
