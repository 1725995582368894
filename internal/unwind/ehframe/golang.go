// SPDX-License-Identifier: Apache-2.0

package ehframe

func (b *builder) goCode() {}
