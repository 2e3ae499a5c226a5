// Closures that submit closures, and wait for them by a predicate.
#include <atomic>
#include <cstdlib>
#include <iostream>

#include "windlass.hpp"

static long Fib(windlass::ThreadPool &pool, int n) {
    if (n < 2) return n;
    std::atomic<int> done{0};
    long a, b;
    pool.Submit([&, n] { a = Fib(pool, n - 1), done++; });
    pool.Submit([&, n] { b = Fib(pool, n - 2), done++; });
    pool.Wait([&] { return done == 2; });
    return a + b;
}

int main(int count, char **arguments) {
    int n = count > 1 ? std::atoi(arguments[1]) : 20;
    windlass::ThreadPool pool;
    std::cout << "fib(" << n << ") = " << Fib(pool, n) << '\n';
}
