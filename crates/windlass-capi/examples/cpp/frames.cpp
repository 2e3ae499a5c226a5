// A loop of frames: the bodies of each frame on all threads, and the sounds to threads that sleep in between.
#include <atomic>
#include <cstdint>
#include <iostream>

#include "windlass.hpp"

int main() {
    windlass::ThreadPool pool;
    std::atomic<long> moved{0}, heard{0};
    windlass_burst *burst;
    if (windlass_burst_create(nullptr, &burst) != WINDLASS_OK) return 1;
    const auto play = [](void *heard, void *item) {
        *static_cast<std::atomic<long> *>(heard) += static_cast<long>(reinterpret_cast<std::intptr_t>(item));
    };
    for (int i = 0; i < 2; i++) windlass_burst_add_worker(burst, play, &heard, nullptr, nullptr);
    for (int frame = 0; frame < 60; frame++) {
        for (std::intptr_t i = 0; i < 3; i++) windlass_burst_send(burst, reinterpret_cast<void *>(std::intptr_t{1}));
        pool.ParallelFor(0, 1000, [&](int) { moved++; });
        windlass_burst_wait_idle(burst);
    }
    windlass_burst_destroy(burst);
    std::cout << moved << " bodies moved, " << heard << " sounds heard\n";
}
