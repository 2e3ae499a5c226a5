// No pool at all, and the plain pool of C.
#include <memory>
#include <utility>

#include "peer.hpp"
#include "tasks.h"

namespace {

Turn MatmulTurn(std::size_t len, unsigned) {
    return [matrices = std::make_shared<Matrices>(len)](Timer &timer) {
        matrices->Time(timer, [&] { matrices->MultiplyAll(); });
    };
}

Turn LoopTurn(std::size_t count, unsigned) {
    return [count](Timer &timer) {
        adds_begin();
        timer.Time([&] {
            for (std::size_t i = 0; i < count; i++) adds(nullptr);
        });
        Verify(adds_done() == count, "the number of tasks");
    };
}

Turn AddsTurn(std::size_t count, unsigned threads) {
    return [count, threads](Timer &timer) {
        queue_pool *pool = queue_pool_create(static_cast<int>(threads));
        adds_begin();
        timer.Time([&] {
            for (std::size_t i = 0; i < count; i++) Verify(queue_pool_submit(pool, adds, nullptr) == 1, "a submit");
            queue_pool_destroy(pool);
        });
        Verify(adds_done() == count, "the number of tasks");
    };
}

} // namespace

const std::vector<Subject> kQueues{
    {"loop matmul", MatmulTurn},
    {"loop adds", LoopTurn},
    {"queues adds", AddsTurn},
};
