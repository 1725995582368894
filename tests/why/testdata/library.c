// SPDX-License-Identifier: Apache-2.0
int work(int x) { return x + 1; }
