// windlass.hpp: its promises, and the SC-* hazards of docs/pool-hazards.md.
#include "windlass.hpp"

#include <algorithm>
#include <array>
#include <ctime>
#include <future>
#include <list>
#include <mutex>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "check.h"

namespace scheduling = windlass;
using scheduling::Task;
using scheduling::ThreadPool;
using namespace std::chrono_literals;

template <class Exception, class F>
static bool Throws(F &&f) {
    try {
        f();
    } catch (const Exception &) {
        return true;
    }
    return false;
}

static void closures_of_any_kind_are_run() {
    std::atomic<int> count{0};
    {
        ThreadPool pool(3);
        std::string text(100, 'x'), short_text("sso");
        auto owned = std::make_unique<int>(5);
        std::array<char, 200> large{};
        large[199] = 7;
        pool.Submit([&] { count++; });
        pool.Submit([&count, text] { count += static_cast<int>(text.size()); });
        pool.Submit([&count, short_text] { count += short_text == "sso" ? 1 : 1000; });
        pool.Submit([&count, owned = std::move(owned)] { count += *owned; });
        pool.Submit([&count, large] { count += large[199]; });
        struct alignas(64) Wide {
            std::atomic<int> *count;
            void operator()() { *count += reinterpret_cast<std::uintptr_t>(this) % 64 == 0 ? 1 : 1000; }
        };
        pool.Submit(Wide{&count});
        const auto constant = [&] { return count++; };
        pool.Submit(constant);
    }
    CHECK_IS(count, 1 + 100 + 1 + 5 + 7 + 1 + 1);
}

static void closures_are_destroyed_once_with_what_they_hold() {
    auto held = std::make_shared<int>(1);
    {
        ThreadPool pool(2);
        for (int i = 0; i < 1000; i++) pool.Submit([held] { (void)held; });
        Task task([held] { (void)held; });
        pool.Submit(&task);
        pool.Wait();
    }
    CHECK_IS(held.use_count(), 1);
}

static long Fib(ThreadPool &pool, int n) {
    if (n < 2) return n;
    std::atomic<int> done{0};
    long a, b;
    pool.Submit([&, n] { a = Fib(pool, n - 1), done++; });
    pool.Submit([&, n] { b = Fib(pool, n - 2), done++; });
    pool.Wait([&] { return done == 2; });
    return a + b;
}

static void waits_with_a_predicate_nest() {
    ThreadPool pool(3);
    CHECK_IS(Fib(pool, 18), 2584);
}

static void sc11_waits_inside_waits_do_not_need_a_stack_without_end() {
    ThreadPool pool(2);
    std::atomic<int> left{20000};
    for (int i = 0; i < 20000; i++) {
        pool.Submit([&] {
            std::atomic<bool> is_done{false};
            pool.Submit([&] { is_done = true; });
            pool.Wait([&] { return is_done.load(); });
            left--;
        });
    }
    pool.Wait();
    CHECK_IS(left, 0);
}

static void a_graph_runs_in_order_again_and_again() {
    ThreadPool pool(3);
    int a = 0, b = 0, c = 0, d = 0, ab = 0, cd = 0, product = 0;
    std::vector<Task> tasks;
    tasks.emplace_back([&] { a = 1; });
    tasks.emplace_back([&] { b = 2; });
    tasks.emplace_back([&] { c = 3; });
    tasks.emplace_back([&] { d = 4; });
    tasks.emplace_back([&] { ab = a + b; });
    tasks.emplace_back([&] { cd = c + d; });
    tasks.emplace_back([&] { product = ab * cd; });
    tasks[4].Succeed(&tasks[0], &tasks[1]);
    tasks[5].Succeed(&tasks[2], &tasks[3]);
    tasks[6].Succeed(&tasks[4], &tasks[5]);
    for (int i = 0; i < 2000; i++) {
        a = b = c = d = ab = cd = product = 0;
        pool.Submit(tasks);
        pool.Wait();
        CHECK_IS(product, 21);
    }
}

static void tasks_may_be_in_any_container_and_the_empty_ones_are_joints() {
    ThreadPool pool(2);
    std::atomic<int> count{0};
    std::list<Task> list;
    for (int i = 0; i < 10; i++) list.emplace_back([&] { count++; });
    Task joint, last([&] { CHECK_IS(count, 10); });
    for (Task &task : list) joint.Succeed(&task);
    joint.Precede(&last);
    std::array<Task, 2> ends{joint, last};
    pool.Submit(list);
    pool.Wait();
    pool.Submit(&ends[1]);
    pool.Wait();
    Task plain[3];
    pool.Submit(plain);
    std::vector<Task> none;
    pool.Submit(none);
    pool.Wait();
}

static void one_root_may_be_submitted_again_any_number_of_times() {
    ThreadPool pool(2);
    std::array<Task, 32> chain;
    long count = 0;
    for (Task &task : chain) task = Task([&] { count++; });
    for (std::size_t i = 1; i < chain.size(); i++) chain[i].Succeed(&chain[i - 1]);
    for (int i = 0; i < 20000; i++) {
        pool.Submit(&chain[0]);
        pool.Wait();
    }
    CHECK_IS(count, 32 * 20000);
}

static void a_submitted_task_does_not_ask_for_its_predecessors() {
    ThreadPool pool(2);
    int first = 0, second = 0;
    Task a([&] { first++; }), b([&] { second++; });
    b.Succeed(&a);
    pool.Submit(&b);
    pool.Wait();
    CHECK(first == 0 && second == 1);
}

static void sc1_any_threads_submit_and_wait_at_the_same_time() {
    ThreadPool pool(2);
    std::atomic<int> count{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; i++) {
        threads.emplace_back([&] {
            for (int k = 0; k < 2000; k++) {
                std::atomic<bool> is_done{false};
                pool.Submit([&] { count++, is_done = true; });
                if (k % 16 == 0) {
                    pool.Wait([&] { return is_done.load(); });
                } else {
                    while (!is_done) std::this_thread::yield();
                }
            }
        });
    }
    for (std::thread &thread : threads) thread.join();
    CHECK_IS(count, 16000);
}

static void sc2_workers_of_one_pool_use_a_smaller_one() {
    ThreadPool large(8), small(1);
    std::atomic<int> count{0};
    for (int i = 0; i < 1000; i++) {
        large.Submit([&] {
            std::atomic<bool> is_done{false};
            small.Submit([&] { is_done = true; });
            small.Wait([&] { return is_done.load(); });
            count++;
        });
    }
    large.Wait();
    CHECK_IS(count, 1000);
}

static double Seconds() {
    std::timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

static void sc3_sc4_nobody_spins_while_one_long_task_runs() {
    ThreadPool pool(8);
    std::atomic<bool> is_done{false};
    pool.Wait();
    double before = Seconds();
    pool.Submit([&] {
        std::this_thread::sleep_for(400ms);
        is_done = true;
    });
    pool.Wait([&] { return is_done.load(); });
    CHECK(Seconds() - before < 0.2);
}

static void sc5_a_wait_for_everything_inside_a_task_is_told() {
    ThreadPool pool(2);
    bool is_told = false;
    pool.Submit([&] { is_told = Throws<windlass::Error>([&] { pool.Wait(); }); });
    pool.Wait();
    CHECK(is_told);
}

static void sc6_exceptions_go_to_the_waiter_and_nothing_is_lost() {
    ThreadPool pool(2);
    int after = 0, beside = 0;
    pool.Submit([] { throw std::runtime_error("thrown"); });
    CHECK(Throws<std::runtime_error>([&] { pool.Wait(); }));
    pool.Wait();
    Task bad([] { throw 7; }), next([&] { after++; }), other([&] { beside++; });
    next.Succeed(&bad);
    std::vector<Task> tasks{bad, next, other};
    for (int i = 1; i <= 3; i++) {
        pool.Submit(tasks);
        CHECK(Throws<int>([&] { pool.Wait(); }));
        CHECK(after == 0 && beside == i);
    }
    std::atomic<bool> never{false};
    pool.Submit([] { throw 8; });
    CHECK(Throws<int>([&] { pool.Wait([&] { return never.load(); }); }));
    CHECK(Throws<int>([&] { pool.Wait([]() -> bool { throw 9; }); }));
    pool.Wait();
}

static void a_cancelled_task_and_its_successors_do_not_run_until_reset() {
    ThreadPool pool(2);
    int first = 0, second = 0;
    Task a([&] { first++; }), b([&] { second++; });
    b.Succeed(&a);
    CHECK(a.Cancel());
    pool.Submit(&a);
    pool.Wait();
    CHECK(first == 0 && second == 0);
    a.Reset();
    pool.Submit(&a);
    pool.Wait();
    CHECK(first == 1 && second == 1);
    CHECK(!a.Cancel());
    a.Reset();
    CHECK(b.Cancel() == false);
    b.Reset();
    pool.Submit(&a);
    pool.Wait();
    CHECK(first == 2 && second == 2);
}

static void sc7_a_cancelled_branch_leaves_the_joints_counts_intact() {
    ThreadPool pool(3);
    std::atomic<int> left{0}, right{0}, joined{0};
    std::atomic<bool> is_early{false};
    Task root, a([&] { left++; }), b([&] { right++; });
    Task join([&] { is_early = is_early || left != right, joined++; });
    a.Succeed(&root), b.Succeed(&root), join.Succeed(&a, &b);
    for (int i = 0; i < 500; i++) {
        CHECK(a.Cancel());
        pool.Submit(&root);
        pool.Wait();
        CHECK_IS(joined, i);
        a.Reset(), b.Reset();
        left = right = 0;
        pool.Submit(&root);
        pool.Wait();
        CHECK_IS(joined, i + 1);
        CHECK(!is_early);
        a.Reset(), b.Reset();
    }
}

static void sc8_a_task_may_be_destroyed_as_soon_as_it_has_set_its_flag() {
    ThreadPool pool(2);
    for (int i = 0; i < 5000; i++) {
        std::atomic<bool> is_done{false};
        Task task([&] { is_done = true; });
        pool.Submit(&task);
        while (!is_done) std::this_thread::yield();
    }
    pool.Wait();
}

static void sc9_tasks_move_with_their_vector_while_the_graph_is_built() {
    ThreadPool pool(3);
    std::vector<Task> tasks;
    long count = 0;
    for (int i = 0; i < 1000; i++) {
        tasks.emplace_back([&] { count++; });
        if (i > 0) tasks[static_cast<std::size_t>(i)].Succeed(&tasks[static_cast<std::size_t>(i) - 1]);
    }
    std::vector<Task> copies = tasks;
    std::vector<Task> moved = std::move(tasks);
    tasks.clear();
    pool.Submit(moved);
    pool.Wait();
    moved.clear();
    pool.Submit(copies);
    pool.Wait();
    CHECK_IS(count, 2000);
}

static void tasks_that_are_tied_keep_each_other() {
    ThreadPool pool(2);
    int count = 0;
    Task root;
    {
        Task middle([&] { count++; }), end([&] { count++; });
        middle.Succeed(&root), middle.Precede(&end);
    }
    pool.Submit(&root);
    root = Task();
    pool.Wait();
    CHECK_IS(count, 2);
}

static void sc10_tasks_that_wait_for_each_other_are_refused() {
    ThreadPool pool(2);
    int count = 0;
    Task start([&] { count++; }), a([&] { count++; }), b([&] { count++; });
    a.Succeed(&start), b.Succeed(&a);
    CHECK(Throws<std::invalid_argument>([&] { a.Precede(&a); }));
    a.Succeed(&b);
    std::vector<Task> tasks{start, a, b};
    CHECK(Throws<std::invalid_argument>([&] { pool.Submit(tasks); }));
    CHECK(Throws<std::invalid_argument>([&] { pool.Submit(&start); }));
    pool.Wait();
    CHECK_IS(count, 0);
}

static void sc12_sc13_a_million_tasks_go_through_one_thread() {
    ThreadPool pool(1);
    // Not atomic: the one thread runs them all, and never the one who submits.
    long count = 0;
    for (int i = 0; i < 1000000; i++) pool.Submit([&] { count++; });
    pool.Wait();
    CHECK_IS(count, 1000000);
}

static void sc14_threads_that_cannot_be_had_are_an_exception_and_none_is_as_many_as_there_are() {
    CHECK(Throws<windlass::Error>([] { ThreadPool pool(100000); }));
    windlass_pool_config config{};
    config.size = sizeof config;
    config.threads = 4;
    config.stack_size = std::size_t{1} << 60;
    CHECK(Throws<windlass::Error>([&] { ThreadPool pool(config); }));
    ThreadPool pool(0);
    int count = 0;
    pool.Submit([&] { count++; });
    pool.Wait();
    CHECK_IS(count, 1);
}

static void sc15_a_task_that_was_skipped_may_be_cancelled_again() {
    ThreadPool pool(1);
    Task task([] {}), next([] {});
    next.Succeed(&task);
    CHECK(task.Cancel());
    pool.Submit(&task);
    pool.Wait();
    CHECK(task.Cancel());
    CHECK(next.Cancel());
}

static void a_task_is_not_submitted_twice_before_it_begins() {
    ThreadPool pool(1);
    std::atomic<bool> is_open{false};
    pool.Submit([&] {
        while (!is_open) std::this_thread::yield();
    });
    Task task([] {});
    pool.Submit(&task);
    CHECK(Throws<windlass::Error>([&] { pool.Submit(&task); }));
    is_open = true;
    pool.Wait();
    pool.Submit(&task);
    pool.Wait();
}

static void futures_give_values_and_exceptions() {
    ThreadPool pool(2);
    CHECK_IS(pool.Async([] { return 6 * 7; }).Get(), 42);
    CHECK(Throws<int>([&] { pool.Async([]() -> int { throw 1; }).Get(); }));
    pool.Async([] {}).Get();
    auto unique = pool.Async([] { return std::make_unique<int>(9); });
    CHECK(unique.WaitFor(60s));
    CHECK(unique.IsReady());
    CHECK_IS(*unique.Get(), 9);
    std::atomic<bool> is_open{false};
    auto slow = pool.Async([&] {
        while (!is_open) std::this_thread::yield();
        return 1;
    });
    CHECK(!slow.WaitFor(5ms));
    is_open = true;
    CHECK_IS(slow.Get(), 1);
    { auto dropped = pool.Async([] { return std::string(100, 'x'); }); }
    pool.Wait();
}

static void joins_and_loops_give_values_and_exceptions() {
    ThreadPool pool(3);
    auto [a, b] = pool.Join([] { return 1; }, [] { return std::string("two"); });
    CHECK(a == 1 && b == "two");
    int left = 0;
    pool.Join([&] { left = 1; }, [] {});
    CHECK_IS(left, 1);
    CHECK(Throws<int>([&] { pool.Join([] { throw 1; }, [] { throw 2L; }); }));
    std::vector<int> numbers(10000);
    pool.ParallelFor(-5000, 5000, [&](int i) { numbers[static_cast<std::size_t>(i + 5000)] = i; });
    CHECK_IS(std::accumulate(numbers.begin(), numbers.end(), 0), -5000);
    pool.ParallelFor(5, 5, [](int) { CHECK(false); });
    pool.ParallelFor(5, 4, [](int) { CHECK(false); });
    CHECK(Throws<int>([&] { pool.ParallelFor(0, 1000, [](int i) { if (i == 500) throw i; }); }));
}

static void plans_run_in_order_and_carry_exceptions() {
    ThreadPool pool(2);
    windlass::Graph graph;
    int count = 0;
    bool is_bad = false;
    auto a = graph.Add([&] { if (is_bad) throw 3; count++; });
    auto b = graph.Add([&, held = std::make_unique<int>(10)] { count *= *held; });
    graph.Precede(a, b);
    windlass::Plan plan = graph.Seal();
    plan.Run(pool);
    CHECK_IS(count, 10);
    plan.Run(pool, 2);
    CHECK_IS(count, 1110);
    is_bad = true;
    CHECK(Throws<int>([&] { plan.Run(pool); }));
    CHECK_IS(count, 1110);
    is_bad = false;
    plan.Run(pool);
    CHECK_IS(count, 11110);
    windlass::Graph circle;
    auto c = circle.Add([] {}), d = circle.Add([] {});
    circle.Precede(c, d), circle.Precede(d, c);
    CHECK(Throws<windlass::Error>([&] { (void)circle.Seal(); }));
}

static void a_task_may_destroy_its_own_pool() {
    std::atomic<int> count{0};
    auto *pool = new ThreadPool(2);
    for (int i = 0; i < 100; i++) pool->Submit([&] { count++; });
    pool->Submit([&count, pool] {
        delete pool;
        count++;
    });
    while (count < 101) std::this_thread::yield();
}

// Most families are known to have no circle without a look: this looks for one that is not seen, and for one where there
// is none, in graphs whose edges come in any order and in both ways.
static void sc10_a_circle_is_found_in_whatever_order_its_edges_came() {
    std::mt19937 random(7);
    for (int round = 0; round < 2000; round++) {
        std::size_t count = 2 + random() % 7;
        std::vector<std::pair<std::size_t, std::size_t>> edges;
        for (std::size_t i = 0; i + 1 < count; i++) {
            for (std::size_t j = i + 1; j < count; j++) {
                if (random() % 2 == 0) edges.emplace_back(i, j);
            }
        }
        bool has_circle = random() % 2 == 0;
        if (has_circle) {
            for (std::size_t i = 0; i + 1 < count; i++) edges.emplace_back(i, i + 1);
            edges.emplace_back(count - 1, random() % (count - 1));
        }
        std::shuffle(edges.begin(), edges.end(), random);
        std::vector<windlass::Task> tasks(count);
        for (auto [before, after] : edges) {
            if (random() % 2 == 0) {
                tasks[before].Precede(&tasks[after]);
            } else {
                tasks[after].Succeed(&tasks[before]);
            }
        }
        windlass::ThreadPool pool(1);
        bool is_refused = false;
        try {
            pool.Submit(tasks);
        } catch (const std::invalid_argument &) {
            is_refused = true;
        }
        CHECK_IS(is_refused, has_circle);
    }
}

static void tasks_outlive_the_threads_that_made_them_and_are_freed_by_others() {
    struct Counted {
        explicit Counted(std::atomic<int> &alive) : alive(alive) { alive++; }
        Counted(const Counted &other) : alive(other.alive) { alive++; }
        ~Counted() { alive--; }
        std::atomic<int> &alive;
    };
    std::atomic<int> alive{0}, run{0};
    {
        windlass::ThreadPool pool(2);
        std::vector<windlass::Task> tasks;
        std::vector<std::thread> threads;
        std::mutex mutex;
        for (int i = 0; i < 4; i++) {
            threads.emplace_back([&] {
                for (int k = 0; k < 300; k++) {
                    windlass::Task task([&run, counted = Counted(alive)] { run++; });
                    // A copy of a closure that makes tasks itself, in the middle of being made one.
                    windlass::Task inner([task] {});
                    std::lock_guard lock(mutex);
                    tasks.push_back(task);
                }
            });
        }
        for (std::thread &thread : threads) thread.join();
        for (std::size_t i = 1; i < tasks.size(); i += 2) tasks[i].Succeed(&tasks[i - 1]);
        CHECK_IS(alive, 1200);
        pool.Submit(tasks);
        pool.Wait();
        tasks.erase(tasks.begin(), tasks.begin() + 600);
        CHECK_IS(alive, 600);
    }
    CHECK_IS(run, 1200);
    CHECK_IS(alive, 0);
}

// Only Submit and ties asked whether a task was moved from; a plan that was, had its exceptions looked for nowhere.
static void what_was_moved_from_is_refused_wherever_it_is_used() {
    windlass::ThreadPool pool(1);
    windlass::Task task([] {}), other(std::move(task));
    windlass::Graph graph;
    graph.Add([] {});
    windlass::Plan plan = graph.Seal(), kept(std::move(plan));
    int refused = 0;
    const auto refuse = [&](auto call) {
        try {
            call();
        } catch (const std::invalid_argument &) {
            refused++;
        } catch (const windlass::Error &error) {
            CHECK_IS(error.Status(), WINDLASS_INVALID);
            refused++;
        }
    };
    refuse([&] { pool.Submit(&task); });
    refuse([&] { task.Succeed(&other); });
    refuse([&] { (void)task.Cancel(); });
    refuse([&] { task.Reset(); });
    refuse([&] { plan.Run(pool); });
    CHECK_IS(refused, 5);
    kept.Run(pool);
}

int main() {
    RUN(closures_of_any_kind_are_run);
    RUN(closures_are_destroyed_once_with_what_they_hold);
    RUN(waits_with_a_predicate_nest);
    RUN(sc11_waits_inside_waits_do_not_need_a_stack_without_end);
    RUN(a_graph_runs_in_order_again_and_again);
    RUN(tasks_may_be_in_any_container_and_the_empty_ones_are_joints);
    RUN(one_root_may_be_submitted_again_any_number_of_times);
    RUN(a_submitted_task_does_not_ask_for_its_predecessors);
    RUN(sc1_any_threads_submit_and_wait_at_the_same_time);
    RUN(sc2_workers_of_one_pool_use_a_smaller_one);
    RUN(sc3_sc4_nobody_spins_while_one_long_task_runs);
    RUN(sc5_a_wait_for_everything_inside_a_task_is_told);
    RUN(sc6_exceptions_go_to_the_waiter_and_nothing_is_lost);
    RUN(a_cancelled_task_and_its_successors_do_not_run_until_reset);
    RUN(sc7_a_cancelled_branch_leaves_the_joints_counts_intact);
    RUN(sc8_a_task_may_be_destroyed_as_soon_as_it_has_set_its_flag);
    RUN(sc9_tasks_move_with_their_vector_while_the_graph_is_built);
    RUN(tasks_that_are_tied_keep_each_other);
    RUN(sc10_tasks_that_wait_for_each_other_are_refused);
    RUN(sc10_a_circle_is_found_in_whatever_order_its_edges_came);
    RUN(tasks_outlive_the_threads_that_made_them_and_are_freed_by_others);
    RUN(what_was_moved_from_is_refused_wherever_it_is_used);
    RUN(sc12_sc13_a_million_tasks_go_through_one_thread);
    RUN(sc14_threads_that_cannot_be_had_are_an_exception_and_none_is_as_many_as_there_are);
    RUN(sc15_a_task_that_was_skipped_may_be_cancelled_again);
    RUN(a_task_is_not_submitted_twice_before_it_begins);
    RUN(futures_give_values_and_exceptions);
    RUN(joins_and_loops_give_values_and_exceptions);
    RUN(plans_run_in_order_and_carry_exceptions);
    RUN(a_task_may_destroy_its_own_pool);
    return 0;
}
