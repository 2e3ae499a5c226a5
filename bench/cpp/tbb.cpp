// oneTBB, by what it has that is nearest. Without its headers there are no such subjects.
#include <memory>
#include <utility>

#include "peer.hpp"
#include "tasks.h"

#if __has_include(<tbb/task_group.h>)

#include <deque>
#include <optional>

#include <tbb/flow_graph.h>
#include <tbb/global_control.h>
#include <tbb/parallel_invoke.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

namespace {

// So many threads, the caller being one of them.
struct Threads {
    explicit Threads(unsigned count)
        : limit(tbb::global_control::max_allowed_parallelism, count), arena(static_cast<int>(count)) {}
    tbb::global_control limit;
    tbb::task_arena arena;
};

long Fib(long n) {
    if (n < 2) return n;
    long a = 0, b = 0;
    tbb::task_group group;
    group.run([&] { a = Fib(n - 1); });
    group.run([&] { b = Fib(n - 2); });
    group.wait();
    return a + b;
}

long JoinedFib(long n) {
    if (n < 2) return n;
    long a = 0, b = 0;
    tbb::parallel_invoke([&] { a = JoinedFib(n - 1); }, [&] { b = JoinedFib(n - 2); });
    return a + b;
}

template <long (*kFib)(long)>
Turn FibTurn(std::size_t n, unsigned threads) {
    return [n, threads = std::make_shared<Threads>(threads)](Timer &timer) {
        long sum = 0;
        timer.Time([&] { threads->arena.execute([&] { sum = kFib(static_cast<long>(n)); }); });
        Verify(sum == PlainFib(static_cast<long>(n)), "fib");
    };
}

using Node = tbb::flow::continue_node<tbb::flow::continue_msg>;

struct Chain {
    tbb::flow::graph graph;
    std::deque<Node> nodes;
    std::size_t next = 0;

    explicit Chain(std::size_t count) {
        for (std::size_t i = 0; i < count; i++) {
            nodes.emplace_back(graph, [this, i](const tbb::flow::continue_msg &) {
                if (i == next) next++;
            });
            if (i > 0) tbb::flow::make_edge(nodes[i - 1], nodes[i]);
        }
    }

    void Run() {
        nodes.front().try_put({});
        graph.wait_for_all();
    }
};

Turn ChainTurn(std::size_t count, unsigned threads) {
    return [count, threads = std::make_shared<Threads>(threads)](Timer &timer) {
        threads->arena.execute([&] {
            std::optional<Chain> chain;
            timer.Time([&] {
                chain.emplace(count);
                chain->Run();
            });
            Verify(chain->next == count, "the order of the chain");
        });
    };
}

Turn ChainAgainTurn(std::size_t count, unsigned threads) {
    auto made = std::make_shared<Threads>(threads);
    std::shared_ptr<Chain> chain;
    made->arena.execute([&] { chain = std::make_shared<Chain>(count); });
    return [count, chain, made](Timer &timer) {
        chain->next = 0;
        timer.Time([&] { made->arena.execute([&] { chain->Run(); }); });
        Verify(chain->next == count, "the order of the chain");
    };
}

Turn MatmulTurn(std::size_t len, unsigned threads) {
    auto made = std::make_shared<Threads>(threads);
    return [made, matrices = std::make_shared<Matrices>(len)](Timer &timer) {
        matrices->Time(timer, [&] {
            made->arena.execute([&] {
                tbb::task_group group;
                for (std::size_t row = 0; row < matrices->len; row++) {
                    group.run([m = matrices.get(), row] { m->Multiply(row); });
                }
                group.wait();
            });
        });
    };
}

template <class F>
void RunMany(Threads &threads, std::size_t count, const F &f) {
    threads.arena.execute([&] {
        tbb::task_group group;
        for (std::size_t i = 0; i < count; i++) group.run(f);
        group.wait();
    });
}

Turn SubmitTurn(std::size_t count, unsigned threads) {
    return [count, threads = std::make_shared<Threads>(threads)](Timer &timer) {
        timer.Time([&] { RunMany(*threads, count, [] {}); });
    };
}

Turn AddsTurn(std::size_t count, unsigned threads) {
    return [count, threads = std::make_shared<Threads>(threads)](Timer &timer) {
        adds_begin();
        timer.Time([&] { RunMany(*threads, count, [] { adds(nullptr); }); });
        Verify(adds_done() == count, "the number of tasks");
    };
}

} // namespace

const std::vector<Subject> kTbb{
    {"tbb fib", FibTurn<Fib>},       {"tbb join", FibTurn<JoinedFib>},       {"tbb tasks", ChainTurn},
    {"tbb tasks again", ChainAgainTurn}, {"tbb matmul", MatmulTurn}, {"tbb submit", SubmitTurn},
    {"tbb adds", AddsTurn},
};

#else

const std::vector<Subject> kTbb{};

#endif
