// SPDX-License-Identifier: Apache-2.0
// A user of library.c.
#include <stdlib.h>
#include <unistd.h>

int work(int);

int main(int argc, char **argv) {
	for (int i = 0; i < atoi(argv[1]) / 10; i++) {
		work(i);
		usleep(10000);
	}
}
