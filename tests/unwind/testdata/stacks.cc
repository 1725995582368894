// SPDX-License-Identifier: Apache-2.0

// Stacks with templates, exceptions and callbacks.
#include <algorithm>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

volatile long sink;

template <int N> struct Chain {
	__attribute__((noinline)) static long run(const std::string &s) {
		std::string t = s + char('a' + N);
		long r = Chain<N - 1>::run(t) + sink;
		return r + t.size();
	}
};

template <> struct Chain<0> {
	__attribute__((noinline)) static long run(const std::string &s) {
		std::map<std::string, int> m;
		for (int i = 0; i < 20; i++)
			m[s + std::to_string(i)] = i;
		std::vector<int> v;
		for (auto &e : m)
			v.push_back(e.second * 7 % 5);
		std::sort(v.begin(), v.end(), [](int a, int b) { sink = a; return a > b; });
		if (v[0] > 2)
			throw std::runtime_error(s);
		return v[0];
	}
};

int main() {
	std::function<long(int)> f = [](int n) { return Chain<6>::run(std::to_string(n)); };
	for (int i = 0;; i++) {
		try {
			sink += f(i);
		} catch (const std::exception &e) {
			sink += e.what()[0];
		}
	}
}
