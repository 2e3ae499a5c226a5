// windlass.hpp: the pool for C++20. Header-only, on top of windlass.h; link with -lwindlass.
//
//     windlass::ThreadPool pool;
//     pool.Submit([] { std::puts("hello"); });
//     windlass::Task a([&] { x = 1; }), b([&] { y = 2; }), sum([&] { z = x + y; });
//     sum.Succeed(&a, &b);
//     std::vector<windlass::Task> tasks{a, b, sum};
//     pool.Submit(tasks);
//     pool.Wait();
//     int answer = pool.Async([] { return 6 * 7; }).Get();
//
// Threads     All functions of ThreadPool, Task::Cancel and Task::Reset may be called by any thread at any time, also by
//             tasks. Edges are added by one thread, while no other copies or destroys a Task of those that are tied, and
//             not between a Submit of them and the Wait() after it: that a task has set something does not tell that it
//             has ended.
// Exceptions  What a submitted closure or task throws is kept, the first one, and thrown by the next Wait; a task's
//             successors do not run then. What Async, Join, ParallelFor and Plan::Run call throws there. An exception that
//             nobody has waited for is written to standard error when the pool goes. A closure must not call longjmp out
//             of itself nor pthread_exit: the process ends with a message.
// Allocation  Submit of a closure of at most 56 bytes, aligned to at most 8, allocates nothing once the pool has grown, if
//             its move constructor does not throw. Submitting tasks again allocates nothing either. Tasks are allocated
//             many at a time; one that lives keeps the memory of those made beside it, at most 32 KiB.
// Errors      windlass::Error, with a windlass_status and its text; std::invalid_argument for tasks that cannot be.
#ifndef WINDLASS_HPP
#define WINDLASS_HPP

#include <algorithm>
#include <atomic>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <exception>
#include <iterator>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "windlass.h"

namespace windlass {

// A call that could not do what it was asked.
class Error : public std::runtime_error {
  public:
    Error(windlass_status status, const std::string &text) : std::runtime_error(text), status_(status) {}
    windlass_status Status() const noexcept { return status_; }

  private:
    windlass_status status_;
};

class Task;
class ThreadPool;

namespace detail {

inline void Check(windlass_status status) {
    if (status != WINDLASS_OK) throw Error(status, windlass_last_error());
}

// A callable that is moved, never copied, and may be called again; small ones lie inside.
class Function {
  public:
    Function() = default;

    template <class F>
        requires(!std::same_as<std::decay_t<F>, Function>)
    explicit Function(F &&f) {
        using Fn = std::decay_t<F>;
        if constexpr (kIsInline<Fn>) {
            ::new (static_cast<void *>(storage_)) Fn(std::forward<F>(f));
            table_ = &kTable<Fn>;
        } else {
            using Box = std::unique_ptr<Fn>;
            ::new (static_cast<void *>(storage_)) Box(std::make_unique<Fn>(std::forward<F>(f)));
            table_ = &kBoxTable<Fn>;
        }
    }

    Function(Function &&other) noexcept : table_(std::exchange(other.table_, nullptr)) {
        if (table_ != nullptr) table_->move(storage_, other.storage_);
    }
    Function &operator=(Function &&) = delete;
    ~Function() {
        if (table_ != nullptr) table_->destroy(storage_);
    }

    explicit operator bool() const noexcept { return table_ != nullptr; }
    void operator()() { table_->call(storage_); }

  private:
    static constexpr std::size_t kSize = 48;

    template <class Fn>
    static constexpr bool kIsInline = sizeof(Fn) <= kSize && alignof(Fn) <= alignof(std::max_align_t) &&
                                      std::is_nothrow_move_constructible_v<Fn>;

    struct Table {
        void (*call)(void *);
        void (*move)(void *, void *) noexcept;
        void (*destroy)(void *) noexcept;
    };

    template <class Fn>
    static void MoveTo(void *to, void *from) noexcept {
        ::new (to) Fn(std::move(*static_cast<Fn *>(from)));
        static_cast<Fn *>(from)->~Fn();
    }

    template <class Fn>
    static constexpr Table kTable{[](void *f) { (void)(*static_cast<Fn *>(f))(); }, MoveTo<Fn>,
                                  [](void *f) noexcept { static_cast<Fn *>(f)->~Fn(); }};

    template <class Fn>
    static constexpr Table kBoxTable{[](void *f) { (void)(**static_cast<std::unique_ptr<Fn> *>(f))(); },
                                     MoveTo<std::unique_ptr<Fn>>, [](void *f) noexcept {
                                         using Box = std::unique_ptr<Fn>;
                                         static_cast<Box *>(f)->~Box();
                                     }};

    alignas(std::max_align_t) std::byte storage_[kSize];
    const Table *table_ = nullptr;
};

// The first exception of some closures, until somebody is there to be told.
class Caught {
  public:
    void Keep(std::exception_ptr thrown) noexcept {
        std::lock_guard lock(mutex_);
        if (first_ == nullptr) first_ = std::move(thrown);
        is_there_.store(true, std::memory_order_release);
    }
    bool IsThere() const noexcept { return is_there_.load(std::memory_order_acquire); }
    void Rethrow() {
        if (!IsThere()) return;
        std::unique_lock lock(mutex_);
        std::exception_ptr thrown = std::exchange(first_, nullptr);
        is_there_.store(false, std::memory_order_relaxed);
        lock.unlock();
        if (thrown != nullptr) std::rethrow_exception(thrown);
    }
    // Nobody has waited for it.
    void Tell() noexcept {
        try {
            Rethrow();
        } catch (const std::exception &thrown) {
            std::fprintf(stderr, "windlass: nobody waited for a task that threw: %s\n", thrown.what());
        } catch (...) {
            std::fputs("windlass: nobody waited for a task that threw\n", stderr);
        }
    }

  private:
    std::atomic<bool> is_there_{false};
    std::mutex mutex_;
    std::exception_ptr first_;
};

// What the tasks of a pool need of it; it outlives the ThreadPool when a task destroys its own.
struct PoolState {
    windlass_pool *pool = nullptr;
    Caught caught;
};

// A closure in a slot of the pool: built there, called once, destroyed; what it throws is kept.
template <class Fn>
struct Closure {
    struct Source {
        Fn &f;
        PoolState *state;
    };
    Fn f;
    PoolState *state;

    static void Build(void *place, void *from) noexcept {
        auto *source = static_cast<Source *>(from);
        ::new (place) Closure{std::move(source->f), source->state};
    }
    static void Run(void *place) noexcept {
        auto *self = static_cast<Closure *>(place);
        try {
            (void)self->f();
        } catch (...) {
            self->state->caught.Keep(std::current_exception());
        }
        self->~Closure();
    }
    static void Destroy(void *place) noexcept { static_cast<Closure *>(place)->~Closure(); }
    static constexpr windlass_closure kKind{sizeof(Closure), Build, Run, Destroy};
    static constexpr bool kFits = sizeof(Fn) + (alignof(Fn) > 8 ? alignof(Fn) : 8) <= WINDLASS_INLINE_SIZE &&
                                  alignof(Fn) <= 16 && std::is_nothrow_move_constructible_v<Fn>;
};

template <class F>
void Spawn(PoolState *state, F &&f) {
    using Fn = std::decay_t<F>;
    using Body = Closure<Fn>;
    if constexpr (!Body::kFits) {
        Spawn(state, [box = std::make_unique<Fn>(std::forward<F>(f))] { (void)(*box)(); });
    } else if constexpr (std::is_same_v<F, Fn>) {
        // The caller's own, which may be moved from.
        typename Body::Source source{f, state};
        Check(windlass_spawn_closure(state->pool, &Body::kKind, &source));
    } else {
        Spawn(state, Fn(std::forward<F>(f)));
    }
}

// ---- Tasks ----------------------------------------------------------------------------------------------------------

struct Node;

// Tasks that are tied to each other, directly or not. They live together: until no Task of them is left and none runs.
struct Family {
    std::atomic<std::uint64_t> holds{0};
    // In a list, in the order in which they came.
    Node *first = nullptr;
    Node *last = nullptr;
    std::size_t count = 0;
    // No task waits for itself by way of others. Known of most families without a look: an edge to a task that nothing
    // comes after yet closes no circle.
    std::atomic<bool> is_checked{true};
};

// What comes after a node: nearly always one other node.
class Successors {
  public:
    Successors() = default;
    Successors(const Successors &) = delete;
    Successors &operator=(const Successors &) = delete;
    ~Successors() { delete others_; }

    void Add(Node *node) {
        if (first_ == nullptr) {
            first_ = node;
            return;
        }
        if (others_ == nullptr) others_ = new std::vector<Node *>;
        others_->push_back(node);
    }

    bool IsEmpty() const noexcept { return first_ == nullptr; }

    template <class F>
    void ForEach(F &&f) const {
        if (first_ != nullptr) f(first_);
        if (others_ == nullptr) return;
        for (Node *node : *others_) f(node);
    }

  private:
    Node *first_ = nullptr;
    std::vector<Node *> *others_ = nullptr;
};

struct Block;

struct alignas(64) Node {
    static constexpr std::uint8_t kCancelled = 1;
    static constexpr std::uint8_t kInvoked = 2;

    explicit Node(Block *home) : block(home) {}
    template <class F>
    Node(Block *home, F &&f) : block(home), function(std::forward<F>(f)) {}

    // Predecessors that have not ended in this run. Set again when the node begins; all have been counted by then.
    std::atomic<std::uint32_t> remaining{0};
    std::uint32_t predecessors = 0;
    std::uint32_t mark = 0;
    std::atomic<std::uint8_t> flags{0};
    // A predecessor was not run in this run: nor is this one. Set before the predecessor is counted.
    std::atomic<bool> is_skipped{false};
    // Submitted and not begun.
    std::atomic<bool> is_queued{false};
    Family *family = nullptr;
    Node *next_of_family = nullptr;
    std::atomic<std::uint64_t> holds{1};
    Successors successors;
    Block *const block;
    Function function;
};

// Room for nodes that one thread makes one after the other, for an allocation each would cost more than all else of a
// task. The nodes may be freed by any thread, in any order; the last one frees the block.
struct Block {
    // Room for nodes that was not given out, nodes that live, and the thread that fills the block.
    std::atomic<std::size_t> live;
    std::size_t used = 0;
    const std::size_t room;
    Node *const nodes;

    explicit Block(std::size_t count)
        : live(count + 1), room(count),
          nodes(static_cast<Node *>(::operator new(count * sizeof(Node), std::align_val_t(alignof(Node))))) {}
    Block(const Block &) = delete;
    Block &operator=(const Block &) = delete;
    ~Block() { ::operator delete(nodes, std::align_val_t(alignof(Node))); }

    void Give(std::size_t count) {
        if (live.fetch_sub(count, std::memory_order_acq_rel) == count) delete this;
    }
    // No more nodes come.
    void Close() { Give(room - used + 1); }

    // The block that this thread fills, if there is one.
    static inline constinit thread_local Block *current = nullptr;
    static inline constinit thread_local bool is_thread_over = false;

    static Block *WithRoom() {
        Block *block = current;
        return block != nullptr && block->used < block->room ? block : Next();
    }

    // Closes the block of a thread that ends.
    struct Closer {
        ~Closer() {
            is_thread_over = true;
            if (Block *block = std::exchange(current, nullptr)) block->Close();
        }
    };

    [[gnu::cold, gnu::noinline]] static Block *Next() {
        constexpr std::size_t kFirst = 8, kMost = 256;
        if (is_thread_over) {
            // Nobody will close it.
            auto *block = new Block(1);
            block->live.store(1, std::memory_order_relaxed);
            return block;
        }
        static thread_local Closer closer;
        (void)closer;
        auto *next = new Block(current == nullptr ? kFirst : std::min(current->room * 2, kMost));
        if (Block *full = std::exchange(current, next)) full->Close();
        return next;
    }
};

template <class... F>
Node *NewNode(F &&...f) {
    Block *block = Block::WithRoom();
    // Taken before the closure is copied, which may make tasks itself.
    Node *place = block->nodes + block->used++;
    try {
        return ::new (static_cast<void *>(place)) Node(block, std::forward<F>(f)...);
    } catch (...) {
        block->Give(1);
        throw;
    }
}

inline void DeleteNode(Node *node) {
    Block *block = node->block;
    node->~Node();
    block->Give(1);
}

inline void DeleteFamily(Family *family) {
    // Nodes that were made one after the other are in one block, and given back together.
    Block *block = family->first->block;
    std::size_t count = 0;
    for (Node *node = family->first; node != nullptr;) {
        Node *next = node->next_of_family;
        if (node->block != block) {
            block->Give(std::exchange(count, 0));
            block = node->block;
        }
        count++;
        node->~Node();
        node = next;
    }
    block->Give(count);
    delete family;
}

inline std::atomic<std::uint64_t> &HoldsOf(Node *node) {
    return node->family != nullptr ? node->family->holds : node->holds;
}

inline void Hold(Node *node) { HoldsOf(node).fetch_add(1, std::memory_order_relaxed); }

inline void LetGo(Node *node) {
    Family *family = node->family;
    if (HoldsOf(node).fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    if (family == nullptr) {
        DeleteNode(node);
    } else {
        DeleteFamily(family);
    }
}

// The family of both, made of theirs.
inline void Unite(Node *one, Node *other) {
    if (one->family == nullptr && other->family == nullptr) {
        auto *made = new Family;
        made->first = made->last = one;
        made->count = 1;
        made->holds.store(one->holds.load(std::memory_order_relaxed), std::memory_order_relaxed);
        one->family = made;
    }
    if (one->family == other->family) return;
    // The smaller one moves: so a node moves at most as often as a number can be halved.
    const auto size = [](Node *node) { return node->family == nullptr ? 1 : node->family->count; };
    if (size(one) < size(other)) std::swap(one, other);
    Family *into = one->family;
    Family *from = other->family;
    std::uint64_t holds = HoldsOf(other).load(std::memory_order_relaxed);
    Node *first = from == nullptr ? other : from->first;
    into->last->next_of_family = first;
    into->last = from == nullptr ? other : from->last;
    into->count += size(other);
    for (Node *member = first; member != nullptr; member = member->next_of_family) member->family = into;
    if (from != nullptr && !from->is_checked.load(std::memory_order_relaxed)) {
        into->is_checked.store(false, std::memory_order_relaxed);
    }
    delete from;
    into->holds.fetch_add(holds, std::memory_order_relaxed);
}

inline void Tie(Node *before, Node *after) {
    if (before == nullptr || after == nullptr) throw std::invalid_argument("windlass: a task that was moved from is tied");
    if (before == after) throw std::invalid_argument("windlass: a task is tied to itself: it would never run");
    Unite(before, after);
    before->successors.Add(after);
    after->remaining.store(++after->predecessors, std::memory_order_relaxed);
    if (!after->successors.IsEmpty()) before->family->is_checked.store(false, std::memory_order_relaxed);
}

// Throws if tasks of the family wait for each other.
inline void CheckFamily(Node *node) {
    Family *family = node->family;
    if (family == nullptr || family->is_checked.load(std::memory_order_acquire)) return;
    static std::mutex mutex;
    std::lock_guard lock(mutex);
    std::vector<Node *> ready;
    for (Node *member = family->first; member != nullptr; member = member->next_of_family) {
        member->mark = member->predecessors;
        if (member->mark == 0) ready.push_back(member);
    }
    std::size_t count = 0;
    while (!ready.empty()) {
        Node *member = ready.back();
        ready.pop_back();
        count++;
        member->successors.ForEach([&](Node *successor) {
            if (--successor->mark == 0) ready.push_back(successor);
        });
    }
    if (count < family->count) {
        throw std::invalid_argument("windlass: tasks that wait for each other in a circle cannot be submitted");
    }
    family->is_checked.store(true, std::memory_order_release);
}

// Whether the node is to be run now, and not skipped.
inline bool Begins(Node *node) {
    node->is_queued.store(false, std::memory_order_relaxed);
    node->remaining.store(node->predecessors, std::memory_order_relaxed);
    if (node->is_skipped.load(std::memory_order_relaxed)) {
        node->is_skipped.store(false, std::memory_order_relaxed);
        return false;
    }
    std::uint8_t flags = node->flags.load(std::memory_order_acquire);
    while ((flags & (Node::kCancelled | Node::kInvoked)) == 0) {
        if (node->flags.compare_exchange_weak(flags, flags | Node::kInvoked, std::memory_order_acq_rel)) return true;
    }
    return (flags & Node::kCancelled) == 0;
}

void Queue(PoolState *state, Node *node);

// Runs a node, and then the first of its successors that becomes ready, and so on; queues the others.
inline void RunFrom(PoolState *state, Node *first) noexcept {
    for (Node *node = first; node != nullptr;) {
        bool is_run = Begins(node);
        if (is_run && node->function) {
            try {
                node->function();
            } catch (...) {
                is_run = false;
                state->caught.Keep(std::current_exception());
            }
        }
        Node *next = nullptr;
        node->successors.ForEach([&](Node *successor) {
            if (!is_run) successor->is_skipped.store(true, std::memory_order_relaxed);
            if (successor->predecessors > 1 && successor->remaining.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
            if (next == nullptr) {
                next = successor;
            } else {
                Queue(state, successor);
            }
        });
        node = next;
    }
    LetGo(first);
}

// The tasks are kept until the run that begins here has ended.
inline void Queue(PoolState *state, Node *node) {
    struct Begin {
        Node *node;
        PoolState *state;
        static void Run(void *place) noexcept {
            Begin begin = *static_cast<Begin *>(place);
            RunFrom(begin.state, begin.node);
        }
    };
    Hold(node);
    Begin begin{node, state};
    if (windlass_status status = windlass_spawn_bytes(state->pool, &begin, sizeof begin, Begin::Run);
        status != WINDLASS_OK) {
        LetGo(node);
        throw Error(status, windlass_last_error());
    }
}

// A task that the caller submits: not twice before it begins.
inline void QueueFirst(PoolState *state, Node *node) {
    if (node->is_queued.exchange(true, std::memory_order_acq_rel)) {
        throw Error(WINDLASS_BUSY, "windlass: a task is submitted that was submitted and has not begun");
    }
    try {
        Queue(state, node);
    } catch (...) {
        node->is_queued.store(false, std::memory_order_relaxed);
        throw;
    }
}

template <class T>
using Value = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

// Calls f, and answers its value, or a value that says nothing.
template <class F>
Value<std::invoke_result_t<F &>> Call(F &f) {
    if constexpr (std::is_void_v<std::invoke_result_t<F &>>) {
        f();
        return {};
    } else {
        return f();
    }
}

} // namespace detail

// Something to be done, and its place among others. A value: copies are the same task, and tasks that are tied keep each
// other, so a Task may be moved, copied and destroyed while others are tied to it, and even while it runs.
class Task {
  public:
    // A task that does nothing: for many to come before many.
    Task() : node_(detail::NewNode()) {}

    // Not inlined: GCC 12 warns of arrays without elements where a vector of tasks grows.
    template <class F>
        requires(!std::same_as<std::remove_cvref_t<F>, Task> && std::invocable<std::decay_t<F> &>)
    [[gnu::noinline]] Task(F &&f) : node_(detail::NewNode(std::forward<F>(f))) {}

    Task(const Task &other) noexcept : node_(other.node_) {
        if (node_ != nullptr) detail::Hold(node_);
    }
    Task(Task &&other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
    Task &operator=(Task other) noexcept {
        std::swap(node_, other.node_);
        return *this;
    }
    ~Task() {
        if (node_ != nullptr) detail::LetGo(node_);
    }

    // Has this task run after each of these.
    template <class... Tasks>
        requires(std::convertible_to<Tasks *, const Task *> && ...)
    void Succeed(Tasks *...before) {
        (detail::Tie(before->node_, node_), ...);
    }

    // Has this task run before each of these.
    template <class... Tasks>
        requires(std::convertible_to<Tasks *, const Task *> && ...)
    void Precede(Tasks *...after) {
        (detail::Tie(node_, after->node_), ...);
    }

    // Keeps the task, and all that comes after it, from running from now on, until Reset. True when it has not run since
    // it was made or reset; also when it was cancelled before.
    bool Cancel() {
        return (There()->flags.fetch_or(detail::Node::kCancelled, std::memory_order_acq_rel) & detail::Node::kInvoked) ==
               0;
    }

    // The task may run again, and be cancelled again.
    void Reset() { There()->flags.store(0, std::memory_order_release); }

  private:
    friend class ThreadPool;

    detail::Node *There() const {
        if (node_ == nullptr) throw std::invalid_argument("windlass: a task that was moved from is used");
        return node_;
    }

    detail::Node *node_;
};

// What a closure of Async will return. Moved, not copied. Dropping it lets the closure run by itself.
template <class T>
class Future {
  public:
    Future() = default;
    Future(Future &&other) noexcept
        : task_(std::exchange(other.task_, nullptr)), result_(std::move(other.result_)) {}
    Future &operator=(Future other) noexcept {
        std::swap(task_, other.task_);
        std::swap(result_, other.result_);
        return *this;
    }
    ~Future() {
        if (task_ != nullptr) windlass_task_release(task_);
    }

    bool IsReady() const { return windlass_task_is_done(task_) == 1; }

    // Waits, running other tasks meanwhile, and gives the value, or throws what the closure has thrown. Once.
    T Get() {
        detail::Check(windlass_task_wait(task_, nullptr));
        windlass_task_release(std::exchange(task_, nullptr));
        auto result = std::exchange(result_, nullptr);
        if (result->thrown != nullptr) std::rethrow_exception(result->thrown);
        if constexpr (!std::is_void_v<T>) return std::move(*result->value);
    }

    void Wait() const { detail::Check(windlass_task_wait(task_, nullptr)); }

    // Waits for at most so long. True if the value is there.
    template <class Rep, class Period>
    bool WaitFor(std::chrono::duration<Rep, Period> time) const {
        auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(time).count();
        auto limit = static_cast<std::uint64_t>(milliseconds > 0 ? milliseconds : 0);
        windlass_status status = windlass_task_wait_timeout(task_, limit, nullptr);
        if (status == WINDLASS_TIMEOUT) return false;
        detail::Check(status);
        return true;
    }

    // True if the closure will not run and has not: Get throws an Error then.
    bool Cancel() { return windlass_task_cancel(task_) == WINDLASS_OK; }

  private:
    friend class ThreadPool;
    struct Result {
        std::optional<detail::Value<T>> value;
        std::exception_ptr thrown;
    };
    windlass_task *task_ = nullptr;
    std::shared_ptr<Result> result_;
};

namespace detail {
template <class R>
concept TaskRange = requires(R &range) {
    { *std::begin(range) } -> std::convertible_to<const Task &>;
    std::end(range);
} && !std::same_as<std::remove_cvref_t<R>, Task>;
} // namespace detail

// Threads that run closures and tasks. The destructor waits for everything that was submitted; inside one of the pool's
// own tasks it returns at once, and the pool goes when its last task has run.
class ThreadPool {
  public:
    // Zero threads means as many as the process may run at a time. Throws Error when they cannot be had.
    explicit ThreadPool(unsigned threads = std::thread::hardware_concurrency()) {
        windlass_pool_config config{};
        config.size = sizeof config;
        config.threads = threads;
        // As many as memory has room for: Submit runs nothing itself, so it may be called with a lock held.
        config.task_count_max = std::size_t{1} << 28;
        Start(config);
    }
    // Whatever windlass.h can configure; `user` and `on_destroyed` are taken.
    explicit ThreadPool(windlass_pool_config config) { Start(config); }

    ThreadPool(const ThreadPool &) = delete;
    ThreadPool &operator=(const ThreadPool &) = delete;
    ~ThreadPool() { windlass_pool_destroy(state_->pool); }

    // Has the pool run f() once. Its value is dropped.
    template <class F>
        requires std::invocable<std::decay_t<F> &>
    void Submit(F &&f) {
        detail::Spawn(state_, std::forward<F>(f));
    }

    // Has the pool run the task now, whatever it succeeds, and then its successors as they become ready.
    void Submit(Task *task) {
        detail::CheckFamily(NodeOf(*task));
        detail::QueueFirst(state_, NodeOf(*task));
    }

    // Has the pool run the tasks that succeed none, and then the others as they become ready. May be done again when all
    // have ended. Throws std::invalid_argument when tasks wait for each other, and none is run.
    template <detail::TaskRange R>
    void Submit(R &&tasks) {
        std::size_t count = 0, roots = 0;
        for (const Task &task : tasks) {
            detail::CheckFamily(NodeOf(task));
            count++;
            roots += NodeOf(task)->predecessors == 0;
        }
        if (count > 0 && roots == 0) {
            throw std::invalid_argument("windlass: every task of the range succeeds another one: none could begin");
        }
        for (const Task &task : tasks) {
            if (roots > 0 && NodeOf(task)->predecessors == 0) {
                // The last one may end all of them, and the caller's container with it.
                bool is_last = --roots == 0;
                detail::QueueFirst(state_, NodeOf(task));
                if (is_last) return;
            }
        }
    }

    // Waits until everything that was submitted has ended. Throws what one of it has thrown; throws Error inside a task.
    void Wait() {
        detail::Check(windlass_wait_idle(state_->pool));
        state_->caught.Rethrow();
    }

    // Runs tasks, or sleeps, until predicate() holds. It should be cheap, and must not wait. Throws what it throws, or
    // what a task has thrown when it does not hold by then.
    template <class Predicate>
        requires std::predicate<const Predicate &>
    void Wait(const Predicate &predicate) {
        struct Ask {
            const Predicate &predicate;
            detail::Caught &caught;
            bool holds = false;
            std::exception_ptr thrown{};
            static int Run(void *place) noexcept {
                auto *ask = static_cast<Ask *>(place);
                try {
                    ask->holds = static_cast<bool>(ask->predicate());
                } catch (...) {
                    ask->thrown = std::current_exception();
                    return 1;
                }
                return ask->holds || ask->caught.IsThere();
            }
        } ask{predicate, state_->caught};
        for (;;) {
            detail::Check(windlass_wait_until(state_->pool, Ask::Run, &ask));
            if (ask.thrown != nullptr) std::rethrow_exception(ask.thrown);
            if (ask.holds) return;
            state_->caught.Rethrow();
        }
    }

    // Has the pool call f once; the future has what it returns or throws.
    template <class F>
        requires std::invocable<std::decay_t<F> &>
    auto Async(F &&f) -> Future<std::invoke_result_t<std::decay_t<F> &>> {
        using T = std::invoke_result_t<std::decay_t<F> &>;
        using Result = typename Future<T>::Result;
        struct Call {
            std::decay_t<F> f;
            std::shared_ptr<Result> result;
            static void *Run(void *place) noexcept {
                auto *self = static_cast<Call *>(place);
                try {
                    self->result->value.emplace(detail::Call(self->f));
                } catch (...) {
                    self->result->thrown = std::current_exception();
                }
                return nullptr;
            }
            static void Destroy(void *place) noexcept { delete static_cast<Call *>(place); }
        };
        Future<T> future;
        future.result_ = std::make_shared<Result>();
        std::unique_ptr<Call> call(new Call{std::forward<F>(f), future.result_});
        windlass_task_options options{};
        options.size = sizeof options;
        options.destroy_arg = Call::Destroy;
        detail::Check(windlass_spawn(state_->pool, Call::Run, call.get(), &options, &future.task_));
        (void)call.release();
        return future;
    }

    // Calls both, at the same time if somebody is free, and answers both values; std::monostate for void. Throws what a
    // has thrown, else what b has, when both have ended.
    template <class A, class B>
    auto Join(A &&a, B &&b) {
        Half<std::remove_reference_t<A>> left{a};
        Half<std::remove_reference_t<B>> right{b};
        detail::Check(windlass_join(state_->pool, left.Run, &left, right.Run, &right));
        if (left.thrown != nullptr) std::rethrow_exception(left.thrown);
        if (right.thrown != nullptr) std::rethrow_exception(right.thrown);
        return std::pair(std::move(*left.value), std::move(*right.value));
    }

    // Calls f(i) for each i of begin..end (end excluded), on all threads that are free, and returns when all calls have
    // ended. After a call that throws no further piece is begun, and the first exception is thrown here.
    template <std::integral Index, class F>
        requires std::invocable<const F &, Index>
    void ParallelFor(Index begin, Index end, const F &f) {
        if (!(begin < end)) return;
        struct Loop {
            Index begin;
            const F &f;
            detail::Caught caught;
            static void Run(void *place, std::size_t first, std::size_t last) noexcept {
                auto *loop = static_cast<Loop *>(place);
                if (loop->caught.IsThere()) return;
                try {
                    for (std::size_t i = first; i < last; i++) {
                        // Without a sign: a range may be longer than its numbers are large.
                        (void)loop->f(static_cast<Index>(static_cast<std::size_t>(loop->begin) + i));
                    }
                } catch (...) {
                    loop->caught.Keep(std::current_exception());
                }
            }
        } loop{begin, f, {}};
        auto count = static_cast<std::size_t>(end) - static_cast<std::size_t>(begin);
        detail::Check(windlass_for(state_->pool, 0, count, 0, Loop::Run, &loop));
        loop.caught.Rethrow();
    }

    // For the functions of windlass.h. Not to be destroyed.
    windlass_pool *Handle() const noexcept { return state_->pool; }

  private:
    template <class F>
    struct Half {
        F &f;
        std::optional<detail::Value<std::invoke_result_t<F &>>> value{};
        std::exception_ptr thrown{};
        static void Run(void *place) noexcept {
            auto *half = static_cast<Half *>(place);
            try {
                half->value.emplace(detail::Call(half->f));
            } catch (...) {
                half->thrown = std::current_exception();
            }
        }
    };

    static detail::Node *NodeOf(const Task &task) { return task.There(); }

    void Start(windlass_pool_config config) {
        auto state = std::make_unique<detail::PoolState>();
        config.user = state.get();
        config.on_destroyed = [](void *user) {
            std::unique_ptr<detail::PoolState> ended(static_cast<detail::PoolState *>(user));
            ended->caught.Tell();
        };
        detail::Check(windlass_pool_create(&config, &state->pool));
        state_ = state.release();
    }

    detail::PoolState *state_;
};

// A graph that was sealed: it is run again and again, faster than tasks are. Moved, not copied.
class Plan {
  public:
    Plan(Plan &&other) noexcept : graph_(std::exchange(other.graph_, nullptr)), own_(std::move(other.own_)) {}
    Plan &operator=(Plan &&other) noexcept {
        std::swap(graph_, other.graph_);
        std::swap(own_, other.own_);
        return *this;
    }
    ~Plan() {
        if (graph_ != nullptr) windlass_graph_destroy(graph_);
    }

    // Runs it so often, and waits; this thread takes part. Throws what a node has thrown: the rest of that run is not run.
    // Throws Error (WINDLASS_BUSY) while another thread runs it.
    void Run(ThreadPool &pool, std::uint64_t count = 1) {
        windlass_status status = windlass_graph_run(graph_, pool.Handle(), count, nullptr);
        if (status != WINDLASS_BUSY && own_ != nullptr) own_->caught.Rethrow();
        detail::Check(status);
    }

  private:
    friend class Graph;
    struct Own {
        windlass_graph *graph = nullptr;
        detail::Caught caught;
        std::deque<std::pair<detail::Function, Own *>> steps;
    };
    Plan(windlass_graph *graph, std::unique_ptr<Own> own) : graph_(graph), own_(std::move(own)) {}

    static void RunStep(void *place) noexcept {
        auto *step = static_cast<std::pair<detail::Function, Own *> *>(place);
        try {
            step->first();
        } catch (...) {
            step->second->caught.Keep(std::current_exception());
            windlass_graph_cancel_run(step->second->graph);
        }
    }

    void Build(const std::vector<windlass_edge> &edges, const std::vector<std::pair<std::uint32_t, std::string>> &names) {
        std::vector<void *> places;
        places.reserve(own_->steps.size());
        for (auto &step : own_->steps) places.push_back(&step);
        detail::Check(windlass_graph_add_all(graph_, RunStep, places.data(), places.size(), nullptr));
        detail::Check(windlass_graph_precede_all(graph_, edges.data(), edges.size()));
        for (const auto &[node, name] : names) detail::Check(windlass_graph_name(graph_, node, name.c_str()));
        detail::Check(windlass_graph_seal(graph_));
    }

    windlass_graph *graph_;
    std::unique_ptr<Own> own_;
};

// Nodes and their order, while it is built. Moved, not copied.
class Graph {
  public:
    Graph() : own_(std::make_unique<Plan::Own>()) {}

    // Adds a node that calls f() in each run, and answers its number.
    template <class F>
        requires std::invocable<std::decay_t<F> &>
    std::uint32_t Add(F &&f) {
        own_->steps.emplace_back(detail::Function(std::forward<F>(f)), own_.get());
        return static_cast<std::uint32_t>(own_->steps.size() - 1);
    }

    // Has one node run before another. Throws Error (WINDLASS_INVALID) when there is no such node.
    void Precede(std::uint32_t before, std::uint32_t after) {
        if (std::max(before, after) >= own_->steps.size()) {
            throw Error(WINDLASS_INVALID, "windlass: an edge to or from a node that was not added");
        }
        edges_.push_back({before, after});
    }

    // What a node is called in errors.
    void Name(std::uint32_t node, const std::string &name) { names_.emplace_back(node, name); }

    // Checks it and lays it out. Throws Error (WINDLASS_GRAPH) that names nodes which wait for each other. The graph is
    // empty afterwards.
    Plan Seal() {
        auto own = std::exchange(own_, std::make_unique<Plan::Own>());
        auto edges = std::exchange(edges_, {});
        auto names = std::exchange(names_, {});
        windlass_graph *graph = nullptr;
        detail::Check(windlass_graph_create(&graph));
        own->graph = graph;
        Plan plan(graph, std::move(own));
        plan.Build(edges, names);
        return plan;
    }

  private:
    std::unique_ptr<Plan::Own> own_;
    std::vector<windlass_edge> edges_;
    std::vector<std::pair<std::uint32_t, std::string>> names_;
};

} // namespace windlass

#endif
