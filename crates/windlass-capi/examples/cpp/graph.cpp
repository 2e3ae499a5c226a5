// (a + b) * (c + d) as tasks that succeed each other, submitted three times.
#include <iostream>
#include <vector>

#include "windlass.hpp"

int main() {
    windlass::ThreadPool pool;
    long start = 0, a, b, c, d, ab, cd, product;
    std::vector<windlass::Task> tasks;
    tasks.emplace_back([&] { a = start; });
    tasks.emplace_back([&] { b = start + 1; });
    tasks.emplace_back([&] { c = start + 2; });
    tasks.emplace_back([&] { d = start + 3; });
    tasks.emplace_back([&] { ab = a + b; });
    tasks.emplace_back([&] { cd = c + d; });
    tasks.emplace_back([&] { product = ab * cd; });
    tasks[4].Succeed(&tasks[0], &tasks[1]);
    tasks[5].Succeed(&tasks[2], &tasks[3]);
    tasks[6].Succeed(&tasks[4], &tasks[5]);
    for (start = 1; start <= 3; start++) {
        pool.Submit(tasks);
        pool.Wait();
        std::cout << product << '\n';
    }
}
