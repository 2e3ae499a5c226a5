// The pool for C and C++, as its users would write it.
#include <memory>
#include <utility>

#include "peer.hpp"
#include "pool.h"
#include "tasks.h"
#include "windlass.hpp"

namespace {

using windlass::ThreadPool;

// Two submits and a wait for a predicate in each call.
long Fib(ThreadPool &pool, long n) {
    if (n < 2) return n;
    long a = 0, b = 0;
    std::atomic<bool> has_a{false}, has_b{false};
    pool.Submit([&] {
        a = Fib(pool, n - 1);
        has_a.store(true, std::memory_order_release);
    });
    pool.Submit([&] {
        b = Fib(pool, n - 2);
        has_b.store(true, std::memory_order_release);
    });
    pool.Wait([&] { return has_a.load(std::memory_order_acquire) && has_b.load(std::memory_order_acquire); });
    return a + b;
}

Turn FibTurn(std::size_t n, unsigned threads) {
    return [n, pool = std::make_shared<ThreadPool>(threads)](Timer &timer) {
        long sum = 0;
        timer.Time([&] {
            pool->Submit([&] { sum = Fib(*pool, static_cast<long>(n)); });
            pool->Wait();
        });
        Verify(sum == PlainFib(static_cast<long>(n)), "fib");
    };
}

long JoinedFib(ThreadPool &pool, long n) {
    if (n < 2) return n;
    auto [a, b] = pool.Join([&] { return JoinedFib(pool, n - 1); }, [&] { return JoinedFib(pool, n - 2); });
    return a + b;
}

Turn JoinTurn(std::size_t n, unsigned threads) {
    return [n, pool = std::make_shared<ThreadPool>(threads - 1)](Timer &timer) {
        long sum = 0;
        timer.Time([&] { sum = JoinedFib(*pool, static_cast<long>(n)); });
        Verify(sum == PlainFib(static_cast<long>(n)), "fib");
    };
}

// The order is what is verified: each node counts only if the one before has.
struct Steps {
    std::size_t next = 0;
    void Take(std::size_t step) {
        if (step == next) next++;
    }
};

void Tie(std::vector<windlass::Task> &tasks, Steps &steps, std::size_t count) {
    tasks.reserve(count);
    for (std::size_t i = 0; i < count; i++) {
        tasks.emplace_back([&steps, i] { steps.Take(i); });
        if (i > 0) tasks[i].Succeed(&tasks[i - 1]);
    }
}

Turn ChainTurn(std::size_t count, unsigned threads) {
    return [count, pool = std::make_shared<ThreadPool>(threads)](Timer &timer) {
        Steps steps;
        std::vector<windlass::Task> tasks;
        timer.Time([&] {
            Tie(tasks, steps, count);
            pool->Submit(tasks);
            pool->Wait();
        });
        Verify(steps.next == count, "the order of the chain");
    };
}

Turn ChainAgainTurn(std::size_t count, unsigned threads) {
    auto steps = std::make_shared<Steps>();
    auto tasks = std::make_shared<std::vector<windlass::Task>>();
    Tie(*tasks, *steps, count);
    return [count, steps, tasks, pool = std::make_shared<ThreadPool>(threads)](Timer &timer) {
        steps->next = 0;
        timer.Time([&] {
            pool->Submit(*tasks);
            pool->Wait();
        });
        Verify(steps->next == count, "the order of the chain");
    };
}

windlass::Plan PlanOf(Steps &steps, std::size_t count) {
    windlass::Graph graph;
    for (std::size_t i = 0; i < count; i++) {
        std::uint32_t node = graph.Add([&steps, i] { steps.Take(i); });
        if (i > 0) graph.Precede(node - 1, node);
    }
    return graph.Seal();
}

Turn PlanTurn(std::size_t count, unsigned threads) {
    return [count, pool = std::make_shared<ThreadPool>(threads - 1)](Timer &timer) {
        Steps steps;
        std::optional<windlass::Plan> plan;
        timer.Time([&] {
            plan.emplace(PlanOf(steps, count));
            plan->Run(*pool);
        });
        Verify(steps.next == count, "the order of the chain");
    };
}

Turn PlanAgainTurn(std::size_t count, unsigned threads) {
    auto steps = std::make_shared<Steps>();
    auto plan = std::make_shared<windlass::Plan>(PlanOf(*steps, count));
    return [count, steps, plan, pool = std::make_shared<ThreadPool>(threads - 1)](Timer &timer) {
        steps->next = 0;
        timer.Time([&] { plan->Run(*pool); });
        Verify(steps->next == count, "the order of the chain");
    };
}

Turn MatmulTurn(std::size_t len, unsigned threads) {
    auto pool = std::make_shared<ThreadPool>(threads);
    return [pool, matrices = std::make_shared<Matrices>(len)](Timer &timer) {
        matrices->Time(timer, [&] {
            for (std::size_t row = 0; row < matrices->len; row++) {
                pool->Submit([m = matrices.get(), row] { m->Multiply(row); });
            }
            pool->Wait();
        });
    };
}

Turn SubmitTurn(std::size_t count, unsigned threads) {
    return [count, pool = std::make_shared<ThreadPool>(threads)](Timer &timer) {
        timer.Time([&] {
            for (std::size_t i = 0; i < count; i++) pool->Submit([] {});
            pool->Wait();
        });
    };
}

// pool.h: destroying the pool is how one waits.
Turn AddsTurn(std::size_t count, unsigned threads) {
    return [count, threads](Timer &timer) {
        thread_pool_t *pool = thread_pool_create(static_cast<int>(threads));
        adds_begin();
        timer.Time([&] {
            for (std::size_t i = 0; i < count; i++) Verify(thread_pool_submit(pool, adds, nullptr) == 1, "a submit");
            thread_pool_destroy(pool);
        });
        Verify(adds_done() == count, "the number of tasks");
    };
}

} // namespace

const std::vector<Subject> kWindlass{
    {"windlass fib", FibTurn},           {"windlass join", JoinTurn},
    {"windlass tasks", ChainTurn},       {"windlass tasks again", ChainAgainTurn},
    {"windlass plan", PlanTurn},         {"windlass plan again", PlanAgainTurn},
    {"windlass matmul", MatmulTurn},     {"windlass submit", SubmitTurn},
    {"windlass adds", AddsTurn},
};
