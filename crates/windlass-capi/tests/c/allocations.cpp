// What allocates nothing, once the pool has grown: every call of malloc in the process is counted.
#include "windlass.hpp"

#include <array>
#include <cerrno>
#include <string>

#include "check.h"

extern "C" {
void *__libc_malloc(std::size_t);
void *__libc_calloc(std::size_t, std::size_t);
void *__libc_realloc(void *, std::size_t);
void *__libc_memalign(std::size_t, std::size_t);
}

static std::atomic<long> allocations{0};

extern "C" void *malloc(std::size_t size) {
    allocations++;
    return __libc_malloc(size);
}
extern "C" void *calloc(std::size_t count, std::size_t size) {
    allocations++;
    return __libc_calloc(count, size);
}
extern "C" void *realloc(void *place, std::size_t size) {
    allocations++;
    return __libc_realloc(place, size);
}
extern "C" int posix_memalign(void **place, std::size_t alignment, std::size_t size) {
    allocations++;
    *place = __libc_memalign(alignment, size);
    return *place == nullptr ? ENOMEM : 0;
}

template <class F>
static long CountAfterWarmUp(windlass::ThreadPool &pool, F &&f) {
    // Free places wander from thread to thread: it takes some rounds until everybody has enough.
    long least = -1;
    for (int round = 0; round < 30 && least != 0; round++) {
        long before = allocations;
        f();
        pool.Wait();
        long count = allocations - before;
        if (least < 0 || count < least) least = count;
    }
    return least;
}

int main() {
    windlass::ThreadPool pool(2);
    std::atomic<long> sum{0};
    CHECK(allocations > 0);

    struct Plain {
        std::atomic<long> *sum;
        long numbers[5];
        void operator()() { *sum += numbers[4]; }
    };
    struct Other {
        std::atomic<long> *sum;
        std::string text;
        Other(std::atomic<long> *to, const char *said) : sum(to), text(said) {}
        Other(const Other &) = default;
        Other(Other &&other) noexcept : sum(other.sum), text(std::move(other.text)) {}
        void operator()() { *sum += static_cast<long>(text.size()); }
    };
    static_assert(sizeof(Plain) == 48 && sizeof(Other) <= 48);

    CHECK_IS(CountAfterWarmUp(pool, [&] {
                 for (int i = 0; i < 1000; i++) pool.Submit(Plain{&sum, {0, 0, 0, 0, 1}});
             }),
             0);
    CHECK_IS(CountAfterWarmUp(pool, [&] {
                 for (int i = 0; i < 100; i++) pool.Submit(Other(&sum, "short"));
             }),
             0);

    std::array<windlass::Task, 10> tasks;
    for (windlass::Task &task : tasks) task = windlass::Task([&] { sum++; });
    for (std::size_t i = 1; i < tasks.size(); i++) tasks[i].Succeed(&tasks[0]);
    CHECK_IS(CountAfterWarmUp(pool, [&] { pool.Submit(tasks); }), 0);
    return 0;
}
