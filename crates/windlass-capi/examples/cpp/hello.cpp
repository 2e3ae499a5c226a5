// Tasks, a result, and a wait.
#include <iostream>

#include "windlass.hpp"

int main() {
    windlass::ThreadPool pool;
    pool.Submit([] { std::cout << "hello, world\n"; });
    pool.Wait();
    auto square = pool.Async([number = 12] { return number * number; });
    std::cout << square.Get() << '\n';
}
