// What a subject is: something that is made once, and then run in turns, its own part timed.
#ifndef PEER_HPP
#define PEER_HPP

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <utility>
#include <vector>

// Times one part of a turn: by the clock, and in processor time of all threads.
class Timer {
  public:
    template <class F>
    void Time(F &&f) {
        double cpu = CpuTime();
        auto since = std::chrono::steady_clock::now();
        f();
        wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
        this->cpu = CpuTime() - cpu;
    }

    static double CpuTime() {
        std::timespec time{};
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
    }

    double wall = 0;
    double cpu = 0;
};

using Turn = std::function<void(Timer &)>;

struct Subject {
    const char *name;
    // The turn for work of this size, on so many threads.
    Turn (*make)(std::size_t size, unsigned threads);
};

extern const std::vector<Subject> kWindlass, kQueues, kTbb;

// A result that is wrong ends the program: a fast run that lost something is a failed run.
inline void Verify(bool is_right, const char *what) {
    if (is_right) return;
    std::fprintf(stderr, "%s is wrong\n", what);
    std::exit(1);
}

// ---- The work, the same for all ---------------------------------------------------------------------------------------

inline long PlainFib(long n) {
    long a = 0, b = 1;
    for (long i = 0; i < n; i++) b = std::exchange(a, b) + b;
    return a;
}

// The factors of a product of two square matrices, and the product. Small whole numbers: its sum is exact.
struct Matrices {
    explicit Matrices(std::size_t len) : len(len), left(len * len), right(len * len), product(len * len) {
        for (std::size_t i = 0; i < len * len; i++) {
            left[i] = static_cast<double>(i * 7 % 17);
            right[i] = static_cast<double>(i * 11 % 17);
        }
    }

    // Not inlined: the same code for all.
    [[gnu::noinline]] void Multiply(std::size_t row) {
        for (std::size_t column = 0; column < len; column++) {
            double sum = 0;
            for (std::size_t k = 0; k < len; k++) sum += left[row * len + k] * right[k * len + column];
            product[row * len + column] = sum;
        }
    }

    double Sum() const {
        double sum = 0;
        for (double value : product) sum += value;
        return sum;
    }

    void MultiplyAll() {
        for (std::size_t row = 0; row < len; row++) Multiply(row);
    }

    // Times a product, and sees whether it is right.
    template <class F>
    void Time(Timer &timer, F &&f) {
        if (expected == 0) {
            MultiplyAll();
            expected = Sum();
        }
        std::fill(product.begin(), product.end(), 0.0);
        timer.Time(f);
        Verify(Sum() == expected, "the product");
    }

    std::size_t len;
    std::vector<double> left, right, product;
    double expected = 0;
};

#endif
