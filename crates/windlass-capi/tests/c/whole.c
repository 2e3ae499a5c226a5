/* windlass.h: every function, and what each answers to misuse. */
#define _GNU_SOURCE
#include "windlass.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

static windlass_pool *pool;
static atomic_int count;
static atomic_int gate;

static void *add_one(void *arg) {
    atomic_fetch_add(&count, 1);
    return arg;
}

static void count_up(void *arg) {
    (void)arg;
    atomic_fetch_add(&count, 1);
}

static void *wait_for_gate(void *arg) {
    while (!atomic_load(&gate)) usleep(50);
    return arg;
}

static atomic_int is_held;

/* Holds a worker at the gate, and says so. */
static void *hold(void *arg) {
    atomic_store(&is_held, 1);
    return wait_for_gate(arg);
}

static void the_library_is_the_one_of_the_header(void) {
    CHECK_IS(windlass_abi_version(), WINDLASS_ABI_VERSION);
    CHECK(strchr(windlass_version(), '.') != NULL);
    CHECK_IS(windlass_struct_size(WINDLASS_POOL_CONFIG), sizeof(windlass_pool_config));
    CHECK_IS(windlass_struct_size(WINDLASS_COUNTERS), sizeof(windlass_counters));
    CHECK_IS(windlass_struct_size(WINDLASS_SHUTDOWN_REPORT), sizeof(windlass_shutdown_report));
    CHECK_IS(windlass_struct_size(WINDLASS_TASK_OPTIONS), sizeof(windlass_task_options));
    CHECK_IS(windlass_struct_size(WINDLASS_GRAPH_REPORT), sizeof(windlass_graph_report));
    CHECK_IS(windlass_struct_size(WINDLASS_BURST_CONFIG), sizeof(windlass_burst_config));
    CHECK_IS(windlass_struct_size(WINDLASS_INLINE), WINDLASS_INLINE_SIZE);
    CHECK_IS(windlass_struct_size(WINDLASS_CLOSURE), sizeof(windlass_closure));
    CHECK_IS(windlass_struct_size(99), 0);
    CHECK(strcmp(windlass_status_name(WINDLASS_STALE), "WINDLASS_STALE") == 0);
    CHECK(strcmp(windlass_status_name(-5), "unknown") == 0);
    CHECK(strcmp(windlass_status_name(WINDLASS_INTERNAL), "WINDLASS_INTERNAL") == 0);
}

static void ca10_a_config_of_another_version_is_read_as_far_as_it_goes(void) {
    struct {
        windlass_pool_config config;
        unsigned long more;
    } newer = {.config = {.size = sizeof newer, .threads = 1}};
    windlass_pool *made;
    CHECK_IS(windlass_pool_create(&newer.config, &made), WINDLASS_OK);
    CHECK_IS(windlass_pool_destroy(made), WINDLASS_OK);
    newer.more = 1;
    CHECK_IS(windlass_pool_create(&newer.config, &made), WINDLASS_INVALID);
    windlass_pool_config older = {.size = offsetof(windlass_pool_config, name), .threads = 1, .name = "\xff"};
    CHECK_IS(windlass_pool_create(&older, &made), WINDLASS_OK);
    CHECK_IS(windlass_pool_destroy(made), WINDLASS_OK);
    older.size = 0;
    CHECK_IS(windlass_pool_create(&older, &made), WINDLASS_INVALID);
}

static void ca11_counts_and_names_that_cannot_be_are_refused_by_name(void) {
    windlass_pool *made;
    windlass_pool_config config = {.size = sizeof config, .threads = 100000};
    CHECK_IS(windlass_pool_create(&config, &made), WINDLASS_INVALID);
    CHECK(strstr(windlass_last_error(), "threads = 100000") != NULL);
    config = (windlass_pool_config){.size = sizeof config, .name = "caf\xe9"};
    CHECK_IS(windlass_pool_create(&config, &made), WINDLASS_INVALID);
    CHECK(strstr(windlass_last_error(), "UTF-8") != NULL);
    char bytes[WINDLASS_INLINE_SIZE + 1] = {0};
    CHECK_IS(windlass_spawn_bytes(pool, bytes, sizeof bytes, count_up), WINDLASS_INVALID);
    CHECK_IS(windlass_for(pool, 5, 4, 0, (void (*)(void *, size_t, size_t))NULL, NULL), WINDLASS_INVALID);
    void *items[1] = {NULL};
    windlass_burst *burst;
    CHECK_IS(windlass_burst_create(NULL, &burst), WINDLASS_OK);
    CHECK_IS(windlass_burst_send_all(burst, items, SIZE_MAX), WINDLASS_INVALID);
    CHECK_IS(windlass_burst_destroy(burst), WINDLASS_OK);
}

static void loop_body(void *user, size_t first, size_t last) { (void)user, (void)first, (void)last; }
static int always(void *user) { return user == NULL; }
static size_t choose(void *arg) { return arg == NULL; }
/* Counts the texts, and keeps the beginning of the last one. */
static char shown[4096];
static void show_text(void *user, const char *text, size_t len) {
    if (user != NULL) ++*(int *)user;
    size_t kept = len < sizeof shown - 1 ? len : sizeof shown - 1;
    memcpy(shown, text, kept);
    shown[kept] = 0;
}
static void build_nothing(void *place, void *from) { (void)place, (void)from; }
static void take_item(void *user, void *item) { (void)user, (void)item; }

static void ca01_null_is_refused_by_every_function(void) {
    windlass_task *task;
    windlass_group *made_group, *no_group;
    windlass_graph *graph;
    windlass_burst *made_burst;
    const windlass_closure good = {.build = build_nothing, .run = count_up};
    const windlass_closure without_build = {.run = count_up}, without_run = {.build = build_nothing};
    CHECK_IS(windlass_graph_create(&graph), WINDLASS_OK);
    CHECK_IS(windlass_burst_create(NULL, &made_burst), WINDLASS_OK);
    CHECK_IS(windlass_group_create(pool, &made_group), WINDLASS_OK);
    int answers[] = {
        windlass_pool_create(NULL, NULL), windlass_pool_destroy(NULL), windlass_pool_shutdown(NULL, 0, 0, NULL),
        windlass_pool_thread_count(pool, NULL), windlass_pool_thread_count(NULL, NULL),
        windlass_pool_counters(pool, 0, NULL), windlass_pool_counters(NULL, 0, NULL), windlass_wait_idle(NULL),
        windlass_wait_until(NULL, always, NULL), windlass_wait_until(pool, NULL, NULL),
        windlass_spawn(NULL, add_one, NULL, NULL, &task), windlass_spawn(pool, NULL, NULL, NULL, &task),
        windlass_spawn_bytes(NULL, NULL, 0, count_up), windlass_spawn_bytes(pool, NULL, 8, count_up),
        windlass_spawn_bytes(pool, NULL, 0, NULL), windlass_spawn_closure(NULL, &good, NULL),
        windlass_spawn_closure(pool, NULL, NULL), windlass_spawn_closure(pool, &without_build, NULL),
        windlass_spawn_closure(pool, &without_run, NULL), windlass_prepare(NULL, add_one, NULL, NULL, &task),
        windlass_prepare(pool, NULL, NULL, NULL, &task), windlass_prepare(pool, add_one, NULL, NULL, NULL),
        windlass_task_continue_with(NULL, NULL), windlass_task_finish_with(NULL, NULL), windlass_task_schedule(NULL),
        windlass_task_wait(NULL, NULL), windlass_task_wait_timeout(NULL, 1, NULL), windlass_task_cancel(NULL),
        windlass_task_release(NULL), windlass_join(NULL, count_up, NULL, count_up, NULL),
        windlass_join(pool, NULL, NULL, count_up, NULL), windlass_for(NULL, 0, 1, 0, loop_body, NULL),
        windlass_for(pool, 0, 1, 0, NULL, NULL), windlass_group_create(NULL, &no_group),
        windlass_group_create(pool, NULL), windlass_group_spawn(NULL, count_up, NULL),
        windlass_group_wait(NULL), windlass_group_cancel(NULL), windlass_group_destroy(NULL),
        windlass_graph_create(NULL), windlass_graph_add(NULL, count_up, NULL, NULL),
        windlass_graph_add_condition(NULL, choose, NULL, NULL), windlass_graph_add_condition(graph, NULL, NULL, NULL),
        windlass_graph_precede(NULL, 0, 0), windlass_graph_name(NULL, 0, "x"), windlass_graph_name(graph, 0, NULL),
        windlass_graph_seal(NULL), windlass_graph_run(NULL, pool, 1, NULL), windlass_graph_cancel(NULL, 0),
        windlass_graph_cancel_run(NULL), windlass_graph_reset(NULL), windlass_graph_destroy(NULL),
        windlass_burst_create(NULL, NULL), windlass_burst_add_worker(NULL, take_item, NULL, NULL, NULL),
        windlass_burst_add_worker(made_burst, NULL, NULL, NULL, NULL), windlass_burst_send(NULL, NULL),
        windlass_burst_send_all(made_burst, NULL, 1), windlass_burst_send_all(NULL, NULL, 0),
        windlass_burst_offer(NULL, NULL), windlass_burst_dispatch_to(NULL, 0, NULL), windlass_burst_wait_idle(NULL),
        windlass_burst_destroy(NULL), windlass_burst_broadcast(NULL, NULL),
        windlass_burst_while_hot(NULL, count_up, NULL), windlass_burst_while_hot(made_burst, NULL, NULL),
        windlass_token_create(NULL), windlass_token_cancel(NULL), windlass_token_destroy(NULL),
        windlass_isolate(NULL, count_up, NULL), windlass_isolate(pool, NULL, NULL), windlass_blocking(NULL, NULL),
        windlass_trace_start(NULL), windlass_trace_take(NULL, show_text, NULL), windlass_trace_take(pool, NULL, NULL),
        windlass_graph_dot(NULL, show_text, NULL), windlass_graph_add_all(NULL, count_up, NULL, 0, NULL),
        windlass_graph_add_all(graph, NULL, NULL, 0, NULL), windlass_graph_add_all(graph, count_up, NULL, 1, NULL),
        windlass_graph_precede_all(NULL, NULL, 0), windlass_graph_precede_all(graph, NULL, 1),
    };
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) CHECK_IS(answers[i], WINDLASS_INVALID);
    CHECK_IS(windlass_task_is_done(NULL), -1);
    CHECK_IS(windlass_token_is_cancelled(NULL), -1);
    /* A handle of another kind is no better. */
    CHECK_IS(windlass_task_wait((windlass_task *)pool, NULL), WINDLASS_INVALID);
    CHECK_IS(windlass_pool_destroy((windlass_pool *)graph), WINDLASS_INVALID);
    CHECK_IS(windlass_group_destroy(made_group), WINDLASS_OK);
    CHECK_IS(windlass_graph_destroy(graph), WINDLASS_OK);
    CHECK_IS(windlass_burst_destroy(made_burst), WINDLASS_OK);
}

static void c8_a_task_gives_its_result_to_every_wait_and_then_its_handle_back(void) {
    int item = 7;
    void *result = NULL;
    windlass_task *task;
    CHECK_IS(windlass_spawn(pool, add_one, &item, NULL, &task), WINDLASS_OK);
    CHECK_IS(windlass_task_wait(task, &result), WINDLASS_OK);
    CHECK(result == &item);
    result = NULL;
    CHECK_IS(windlass_task_wait_timeout(task, 0, &result), WINDLASS_OK);
    CHECK(result == &item);
    CHECK_IS(windlass_task_is_done(task), 1);
    CHECK_IS(windlass_task_cancel(task), WINDLASS_ENDED);
    CHECK_IS(windlass_task_release(task), WINDLASS_OK);
}

static void ca04_a_handle_that_was_given_back_is_stale_also_after_its_place_is_used_again(void) {
    windlass_task *old, *next;
    CHECK_IS(windlass_spawn(pool, add_one, NULL, NULL, &old), WINDLASS_OK);
    CHECK_IS(windlass_task_wait(old, NULL), WINDLASS_OK);
    CHECK_IS(windlass_task_release(old), WINDLASS_OK);
    for (int i = 0; i < 500; i++) {
        CHECK_IS(windlass_spawn(pool, add_one, NULL, NULL, &next), WINDLASS_OK);
        CHECK_IS(windlass_task_wait(old, NULL), WINDLASS_STALE);
        CHECK_IS(windlass_task_cancel(old), WINDLASS_STALE);
        CHECK_IS(windlass_task_release(old), WINDLASS_STALE);
        CHECK_IS(windlass_task_is_done(old), -1);
        CHECK_IS(windlass_task_release(next), WINDLASS_OK);
    }
}

static void ca03_a_pool_that_was_destroyed_is_stale_for_every_call(void) {
    windlass_pool *old, *next;
    windlass_task *task;
    windlass_group *group;
    int number = 1;
    CHECK_IS(windlass_pool_create(NULL, &old), WINDLASS_OK);
    CHECK_IS(windlass_spawn(old, add_one, &number, NULL, &task), WINDLASS_OK);
    CHECK_IS(windlass_group_create(old, &group), WINDLASS_OK);
    CHECK_IS(windlass_pool_destroy(old), WINDLASS_OK);
    /* The next one has its place. */
    CHECK_IS(windlass_pool_create(NULL, &next), WINDLASS_OK);
    CHECK_IS(windlass_spawn(old, add_one, NULL, NULL, NULL), WINDLASS_STALE);
    CHECK_IS(windlass_spawn_bytes(old, &number, sizeof number, count_up), WINDLASS_STALE);
    CHECK_IS(windlass_wait_idle(old), WINDLASS_STALE);
    CHECK_IS(windlass_join(old, count_up, NULL, count_up, NULL), WINDLASS_STALE);
    CHECK_IS(windlass_group_spawn(group, count_up, NULL), WINDLASS_STALE);
    CHECK_IS(windlass_pool_destroy(old), WINDLASS_STALE);
    CHECK_IS(windlass_pool_shutdown(old, WINDLASS_DRAIN, 0, NULL), WINDLASS_STALE);
    /* What was spawned has run, and its result is there. */
    void *result = NULL;
    CHECK_IS(windlass_task_wait(task, &result), WINDLASS_OK);
    CHECK(result == &number);
    CHECK_IS(windlass_task_release(task), WINDLASS_OK);
    CHECK_IS(windlass_group_destroy(group), WINDLASS_OK);
    CHECK_IS(windlass_pool_destroy(next), WINDLASS_OK);
}

static atomic_int destroyed_args, destroyed_results;

static void destroy_arg(void *value) {
    (void)value;
    atomic_fetch_add(&destroyed_args, 1);
}

static void destroy_result(void *value) {
    (void)value;
    atomic_fetch_add(&destroyed_results, 1);
}

static void destructors_are_called_exactly_once(void) {
    windlass_task_options options = {.size = sizeof options, .destroy_arg = destroy_arg,
                                     .destroy_result = destroy_result};
    windlass_task *taken, *left, *cancelled;
    void *result;
    CHECK_IS(windlass_spawn(pool, add_one, &options, &options, &taken), WINDLASS_OK);
    CHECK_IS(windlass_task_wait(taken, &result), WINDLASS_OK);
    CHECK_IS(windlass_task_release(taken), WINDLASS_OK);
    windlass_wait_idle(pool);
    CHECK_IS(destroyed_args, 1);
    CHECK_IS(destroyed_results, 0);

    CHECK_IS(windlass_spawn(pool, add_one, &options, &options, &left), WINDLASS_OK);
    CHECK_IS(windlass_task_release(left), WINDLASS_OK);
    CHECK_IS(windlass_spawn(pool, add_one, &options, &options, NULL), WINDLASS_OK);
    windlass_wait_idle(pool);
    CHECK_IS(destroyed_args, 3);
    CHECK_IS(destroyed_results, 2);

    CHECK_IS(windlass_prepare(pool, add_one, &options, &options, &cancelled), WINDLASS_OK);
    CHECK_IS(windlass_task_cancel(cancelled), WINDLASS_OK);
    CHECK_IS(windlass_task_cancel(cancelled), WINDLASS_ENDED);
    CHECK_IS(destroyed_args, 4);
    CHECK_IS(windlass_task_schedule(cancelled), WINDLASS_OK);
    CHECK_IS(windlass_task_wait(cancelled, NULL), WINDLASS_CANCELLED);
    CHECK_IS(windlass_task_release(cancelled), WINDLASS_OK);
    CHECK_IS(windlass_prepare(pool, add_one, &options, &options, &cancelled), WINDLASS_OK);
    CHECK_IS(windlass_task_release(cancelled), WINDLASS_OK);
    CHECK_IS(destroyed_args, 5);
    CHECK_IS(destroyed_results, 2);
}

static void a_wait_has_its_time(void) {
    windlass_task *task;
    atomic_store(&gate, 0);
    CHECK_IS(windlass_spawn(pool, wait_for_gate, NULL, NULL, &task), WINDLASS_OK);
    CHECK_IS(windlass_task_wait_timeout(task, 20, NULL), WINDLASS_TIMEOUT);
    CHECK_IS(windlass_task_is_done(task), 0);
    atomic_store(&gate, 1);
    CHECK_IS(windlass_task_wait_timeout(task, 60000, NULL), WINDLASS_OK);
    CHECK_IS(windlass_task_release(task), WINDLASS_OK);
}

static void *wait_for_task(void *task) {
    CHECK_IS(windlass_task_wait(task, NULL), WINDLASS_OK);
    return NULL;
}

static void several_threads_may_wait_for_one_task(void) {
    windlass_task *task;
    pthread_t threads[4];
    atomic_store(&gate, 0);
    CHECK_IS(windlass_spawn(pool, wait_for_gate, NULL, NULL, &task), WINDLASS_OK);
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, wait_for_task, task);
    usleep(5000);
    atomic_store(&gate, 1);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    CHECK_IS(windlass_task_release(task), WINDLASS_OK);
}

static windlass_task *_Atomic self;

static void *wait_for_self(void *arg) {
    while (!atomic_load(&self)) usleep(10);
    *(int *)arg = windlass_task_wait(atomic_load(&self), NULL);
    return NULL;
}

static void *wait_for_pool(void *arg) {
    *(int *)arg = windlass_wait_idle(pool);
    return NULL;
}

static void *shut_pool_down(void *arg) {
    *(int *)arg = windlass_pool_shutdown(pool, WINDLASS_DRAIN, 10, NULL);
    return NULL;
}

static void ca05_a_wait_for_oneself_is_told(void) {
    int status = -1;
    windlass_task *task;
    CHECK_IS(windlass_spawn(pool, wait_for_self, &status, NULL, &task), WINDLASS_OK);
    atomic_store(&self, task);
    CHECK_IS(windlass_task_wait(task, NULL), WINDLASS_OK);
    CHECK_IS(status, WINDLASS_DEADLOCK);
    CHECK_IS(windlass_task_release(task), WINDLASS_OK);
    windlass_function waits[] = {wait_for_pool, shut_pool_down};
    for (int i = 0; i < 2; i++) {
        CHECK_IS(windlass_spawn(pool, waits[i], &status, NULL, &task), WINDLASS_OK);
        CHECK_IS(windlass_task_wait(task, NULL), WINDLASS_OK);
        CHECK_IS(status, WINDLASS_DEADLOCK);
        CHECK_IS(windlass_task_release(task), WINDLASS_OK);
    }
}

static int order[8];
static atomic_int order_len;

static void *note(void *arg) {
    order[atomic_fetch_add(&order_len, 1)] = (int)(intptr_t)arg;
    return NULL;
}

static void prepared_tasks_run_in_the_order_they_are_tied(void) {
    windlass_task *first, *second, *third, *parent, *child;
    atomic_store(&order_len, 0);
    CHECK_IS(windlass_prepare(pool, note, (void *)1, NULL, &first), WINDLASS_OK);
    CHECK_IS(windlass_prepare(pool, note, (void *)2, NULL, &second), WINDLASS_OK);
    CHECK_IS(windlass_prepare(pool, note, (void *)3, NULL, &third), WINDLASS_OK);
    CHECK_IS(windlass_task_continue_with(first, second), WINDLASS_OK);
    CHECK_IS(windlass_task_continue_with(second, third), WINDLASS_OK);
    CHECK_IS(windlass_task_continue_with(third, third), WINDLASS_INVALID);
    CHECK_IS(windlass_task_wait(third, NULL), WINDLASS_INVALID);
    CHECK_IS(windlass_task_schedule(third), WINDLASS_OK);
    CHECK_IS(windlass_task_schedule(third), WINDLASS_INVALID);
    CHECK_IS(windlass_task_schedule(second), WINDLASS_OK);
    CHECK_IS(order_len, 0);
    CHECK_IS(windlass_task_schedule(first), WINDLASS_OK);
    CHECK_IS(windlass_task_wait(third, NULL), WINDLASS_OK);
    CHECK(order_len == 3 && order[0] == 1 && order[1] == 2 && order[2] == 3);

    atomic_store(&gate, 0);
    CHECK_IS(windlass_prepare(pool, note, (void *)4, NULL, &parent), WINDLASS_OK);
    CHECK_IS(windlass_prepare(pool, wait_for_gate, NULL, NULL, &child), WINDLASS_OK);
    CHECK_IS(windlass_task_finish_with(child, parent), WINDLASS_OK);
    CHECK_IS(windlass_task_schedule(parent), WINDLASS_OK);
    CHECK_IS(windlass_task_schedule(child), WINDLASS_OK);
    CHECK_IS(windlass_task_wait_timeout(parent, 20, NULL), WINDLASS_TIMEOUT);
    atomic_store(&gate, 1);
    CHECK_IS(windlass_task_wait(parent, NULL), WINDLASS_OK);
    CHECK_IS(windlass_task_release(child), WINDLASS_OK);
    CHECK_IS(windlass_prepare(pool, note, NULL, NULL, &child), WINDLASS_OK);
    CHECK_IS(windlass_task_finish_with(child, parent), WINDLASS_ENDED);
    windlass_task *all[] = {first, second, third, parent, child};
    for (int i = 0; i < 5; i++) CHECK_IS(windlass_task_release(all[i]), WINDLASS_OK);
}

static windlass_task *tied[2];

static void look_at_both(void *arg) {
    (void)arg;
    for (int i = 0; i < 2; i++) CHECK_IS(windlass_task_is_done(tied[i]), 0);
    atomic_fetch_add(&count, 1);
}

/* A tie takes a slot. When all were taken, a queued task was run for it with both tasks locked: one that asked for them
 * hung. */
static void a_tie_without_room_runs_others_with_nothing_locked(void) {
    windlass_pool *made;
    windlass_pool_config config = {.size = sizeof config, .is_deterministic = 1, .seed = 1, .task_count_max = 4};
    CHECK_IS(windlass_pool_create(&config, &made), WINDLASS_OK);
    atomic_store(&count, 0);
    for (int i = 0; i < 2; i++) CHECK_IS(windlass_prepare(made, add_one, NULL, NULL, &tied[i]), WINDLASS_OK);
    for (int i = 0; i < 2; i++) CHECK_IS(windlass_spawn_bytes(made, NULL, 0, look_at_both), WINDLASS_OK);
    CHECK_IS(windlass_task_continue_with(tied[0], tied[1]), WINDLASS_OK);
    CHECK(count > 0);
    for (int i = 2; i-- > 0;) CHECK_IS(windlass_task_schedule(tied[i]), WINDLASS_OK);
    CHECK_IS(windlass_pool_destroy(made), WINDLASS_OK);
    CHECK_IS(count, 4);
    for (int i = 0; i < 2; i++) CHECK_IS(windlass_task_release(tied[i]), WINDLASS_OK);
}

static void read_and_count(void *storage) { atomic_fetch_add(&count, *(int *)storage); }

static void build_number(void *place, void *from) {
    CHECK_IS((intptr_t)place % 16, 0);
    *(int *)place = *(int *)from + 1;
}

static void count_destroyed(void *storage) { atomic_fetch_add(&count, 1000 * *(int *)storage); }

static const windlass_closure number_kind = {.size = sizeof(int), build_number, read_and_count, count_destroyed};

static void a_closure_is_built_in_its_place_and_runs_there(void) {
    int number = 5;
    atomic_store(&count, 0);
    CHECK_IS(windlass_spawn_closure(pool, &number_kind, &number), WINDLASS_OK);
    number = 6;
    CHECK_IS(windlass_spawn_bytes(pool, &number, sizeof number, read_and_count), WINDLASS_OK);
    char bytes[WINDLASS_INLINE_SIZE] = {0};
    memcpy(bytes, &(int){20}, sizeof(int));
    for (size_t len = sizeof(int); len <= sizeof bytes; len++) {
        CHECK_IS(windlass_spawn_bytes(pool, bytes, len, read_and_count), WINDLASS_OK);
    }
    windlass_wait_idle(pool);
    CHECK_IS(count, 6 + 6 + 20 * (WINDLASS_INLINE_SIZE - (int)sizeof(int) + 1));
    windlass_closure large = number_kind;
    large.size = WINDLASS_INLINE_SIZE + 1;
    CHECK_IS(windlass_spawn_closure(pool, &large, &number), WINDLASS_INVALID);
}

static void add_first_and_last(void *copy) {
    CHECK_IS((intptr_t)copy % 16, 0);
    atomic_fetch_add(&count, ((char *)copy)[0] + ((char *)copy)[WINDLASS_INLINE_SIZE - 2]);
}

/* The copy was made of whole words, which the caller's bytes were read as wherever they lay. */
static void bytes_may_lie_anywhere(void) {
    char bytes[WINDLASS_INLINE_SIZE + 8] = {0};
    atomic_store(&count, 0);
    for (int place = 0; place < 8; place++) {
        bytes[place] = 1;
        bytes[place + WINDLASS_INLINE_SIZE - 2] = 2;
        CHECK_IS(windlass_spawn_bytes(pool, bytes + place, WINDLASS_INLINE_SIZE - 1, add_first_and_last), WINDLASS_OK);
    }
    windlass_wait_idle(pool);
    CHECK_IS(count, 8 * 3);
}

static void a_closure_that_is_cancelled_is_destroyed_instead(void) {
    windlass_pool *made;
    windlass_pool_config config = {.size = sizeof config, .threads = 1};
    CHECK_IS(windlass_pool_create(&config, &made), WINDLASS_OK);
    atomic_store(&gate, 0);
    atomic_store(&count, 0);
    CHECK_IS(windlass_spawn(made, wait_for_gate, NULL, NULL, NULL), WINDLASS_OK);
    int number = 1;
    for (int i = 0; i < 3; i++) CHECK_IS(windlass_spawn_closure(made, &number_kind, &number), WINDLASS_OK);
    CHECK_IS(windlass_pool_shutdown(made, WINDLASS_ABANDON, 0, NULL), WINDLASS_OK);
    atomic_store(&gate, 1);
    while (atomic_load(&count) < 6000) usleep(100);
    CHECK_IS(count, 6000);
}

/* A task that keeps one other open needs no slot for it: with all taken, one was waited for all the same, for a second,
 * and then missed. The next tie needs one; a tie that cannot be needs none. */
static void a_tie_that_takes_no_slot_needs_none(void) {
    windlass_pool *made;
    windlass_task *tasks[3];
    windlass_pool_config config = {.size = sizeof config, .threads = 1, .task_count_max = 3};
    CHECK_IS(windlass_pool_create(&config, &made), WINDLASS_OK);
    for (int i = 0; i < 3; i++) CHECK_IS(windlass_prepare(made, add_one, NULL, NULL, &tasks[i]), WINDLASS_OK);
    CHECK_IS(windlass_task_finish_with(tasks[0], tasks[1]), WINDLASS_OK);
    CHECK_IS(windlass_task_finish_with(tasks[0], tasks[2]), WINDLASS_INTERNAL);
    CHECK_IS(windlass_task_schedule(tasks[2]), WINDLASS_OK);
    CHECK_IS(windlass_task_finish_with(tasks[2], tasks[1]), WINDLASS_INVALID);
    CHECK_IS(windlass_task_wait(tasks[2], NULL), WINDLASS_OK);
    CHECK_IS(windlass_task_finish_with(tasks[0], tasks[2]), WINDLASS_ENDED);
    CHECK_IS(windlass_task_continue_with(tasks[2], tasks[0]), WINDLASS_OK);
    for (int i = 2; i-- > 0;) CHECK_IS(windlass_task_schedule(tasks[i]), WINDLASS_OK);
    CHECK_IS(windlass_pool_destroy(made), WINDLASS_OK);
    for (int i = 0; i < 3; i++) CHECK_IS(windlass_task_release(tasks[i]), WINDLASS_OK);
}

static atomic_int is_closing;

static windlass_pool *crowded;

/* Its only worker is held at the gate, and there is room for one more task. */
static void make_crowded(void) {
    windlass_pool_config config = {.size = sizeof config, .threads = 1, .task_count_max = 2};
    CHECK_IS(windlass_pool_create(&config, &crowded), WINDLASS_OK);
    atomic_store(&gate, 0);
    atomic_store(&count, 0);
    atomic_store(&is_held, 0);
    CHECK_IS(windlass_spawn(crowded, hold, NULL, NULL, NULL), WINDLASS_OK);
    while (!atomic_load(&is_held)) usleep(100);
}

static void destroy_its_pool(void *arg) {
    (void)arg;
    CHECK_IS(windlass_pool_destroy(crowded), WINDLASS_OK);
    atomic_store(&gate, 1);
}

/* A call from outside that finds no room runs a task itself, which was not known for one of the pool there: when it
 * destroyed the pool, it waited for the call that it was in. */
static void a_task_that_runs_for_want_of_room_may_destroy_its_pool(void) {
    make_crowded();
    CHECK_IS(windlass_spawn_bytes(crowded, NULL, 0, destroy_its_pool), WINDLASS_OK);
    CHECK_IS(windlass_spawn_bytes(crowded, NULL, 0, count_up), WINDLASS_OK);
    CHECK(windlass_spawn_bytes(crowded, NULL, 0, count_up) != WINDLASS_OK);
    while (!atomic_load(&count)) usleep(100);
}

static void *destroy_crowded(void *arg) {
    CHECK_IS(windlass_pool_destroy(crowded), WINDLASS_OK);
    return arg;
}

static void *see_it_closing(void *arg) {
    unsigned threads;
    while (windlass_pool_thread_count(crowded, &threads) != WINDLASS_CLOSED) usleep(100);
    atomic_store(&is_closing, 1);
    return arg;
}

static void spawn_when_closing(void *arg) {
    (void)arg;
    while (!atomic_load(&is_closing)) usleep(100);
    CHECK_IS(windlass_spawn_bytes(crowded, NULL, 0, count_up), WINDLASS_OK);
    atomic_store(&gate, 1);
}

static void *begin_to_close(void *arg) {
    pthread_t ends, sees;
    while (!atomic_load(&is_held)) usleep(100);
    CHECK_IS(pthread_create(&ends, NULL, destroy_crowded, NULL), 0);
    CHECK_IS(pthread_create(&sees, NULL, see_it_closing, NULL), 0);
    CHECK_IS(pthread_join(sees, NULL), 0);
    CHECK_IS(pthread_join(ends, NULL), 0);
    return arg;
}

static void spawn_while_it_is_closed(void *arg) {
    pthread_t closer;
    CHECK_IS(pthread_create(&closer, NULL, begin_to_close, NULL), 0);
    spawn_when_closing(arg);
    CHECK_IS(pthread_detach(closer), 0);
}

/* As above: when another thread destroyed the pool meanwhile, what the task spawned was refused. */
static void a_task_that_runs_for_want_of_room_spawns_while_its_pool_is_closed(void) {
    make_crowded();
    atomic_store(&is_closing, 0);
    CHECK_IS(windlass_spawn_bytes(crowded, NULL, 0, spawn_while_it_is_closed), WINDLASS_OK);
    CHECK_IS(windlass_spawn_bytes(crowded, NULL, 0, count_up), WINDLASS_OK);
    while (atomic_load(&count) < 2) usleep(100);
}

/* With few slots they are used again, and tasks run here for want of one; none is lost or run twice. */
static void more_closures_than_slots_run_all_the_same(void) {
    windlass_pool *made;
    windlass_pool_config config = {.size = sizeof config, .threads = 2, .task_count_max = 4};
    CHECK_IS(windlass_pool_create(&config, &made), WINDLASS_OK);
    atomic_store(&count, 0);
    int number = 0;
    for (int i = 0; i < 10000; i++) CHECK_IS(windlass_spawn_closure(made, &number_kind, &number), WINDLASS_OK);
    CHECK_IS(windlass_pool_destroy(made), WINDLASS_OK);
    CHECK_IS(count, 10000);
}

static int is_ten(void *arg) {
    (void)arg;
    return atomic_load(&count) >= 10;
}

static void sum_up(void *user, size_t first, size_t last) {
    for (size_t i = first; i < last; i++) atomic_fetch_add((atomic_long *)user, (long)i);
}

static void joins_loops_and_predicates_wait_for_all(void) {
    atomic_long sum = 0;
    atomic_store(&count, 0);
    CHECK_IS(windlass_join(pool, count_up, NULL, count_up, NULL), WINDLASS_OK);
    CHECK_IS(count, 2);
    CHECK_IS(windlass_join(pool, count_up, NULL, NULL, NULL), WINDLASS_INVALID);
    CHECK_IS(windlass_for(pool, 10, 10000, 0, sum_up, &sum), WINDLASS_OK);
    CHECK_IS(sum, 9999L * 10000 / 2 - 45);
    sum = 0;
    CHECK_IS(windlass_for(pool, 0, 10, 3, sum_up, &sum), WINDLASS_OK);
    CHECK_IS(windlass_for(pool, 3, 3, 0, sum_up, &sum), WINDLASS_OK);
    CHECK_IS(sum, 45);
    for (int i = 0; i < 8; i++) CHECK_IS(windlass_spawn(pool, add_one, NULL, NULL, NULL), WINDLASS_OK);
    CHECK_IS(windlass_wait_until(pool, is_ten, NULL), WINDLASS_OK);
    CHECK_IS(count, 10);
}

static windlass_group *group;

static void spawn_into_group(void *arg) {
    CHECK_IS(windlass_group_spawn(group, count_up, NULL), WINDLASS_OK);
    CHECK_IS(windlass_group_wait(group), WINDLASS_DEADLOCK);
    count_up(arg);
}

static void a_group_is_waited_for_with_what_its_tasks_spawn(void) {
    atomic_store(&count, 0);
    CHECK_IS(windlass_group_create(pool, &group), WINDLASS_OK);
    for (int round = 1; round <= 3; round++) {
        for (int i = 0; i < 100; i++) CHECK_IS(windlass_group_spawn(group, spawn_into_group, NULL), WINDLASS_OK);
        CHECK_IS(windlass_group_wait(group), WINDLASS_OK);
        CHECK_IS(count, 200 * round);
    }
    CHECK_IS(windlass_group_cancel(group), WINDLASS_OK);
    CHECK_IS(windlass_group_spawn(group, count_up, NULL), WINDLASS_OK);
    CHECK_IS(windlass_group_destroy(group), WINDLASS_OK);
    CHECK_IS(count, 600);
    CHECK_IS(windlass_group_spawn(group, count_up, NULL), WINDLASS_STALE);
}

static size_t three_times(void *arg) {
    (void)arg;
    return atomic_load(&count) < 3 ? 0 : 1;
}

static void graphs_are_checked_and_run_again_and_again(void) {
    windlass_graph *graph;
    windlass_graph_report report = {.size = sizeof report};
    uint32_t nodes[4];
    CHECK_IS(windlass_graph_create(&graph), WINDLASS_OK);
    for (int i = 0; i < 4; i++) {
        CHECK_IS(windlass_graph_add(graph, i == 2 ? NULL : count_up, NULL, &nodes[i]), WINDLASS_OK);
    }
    CHECK_IS(windlass_graph_precede(graph, nodes[0], nodes[1]), WINDLASS_OK);
    CHECK_IS(windlass_graph_precede(graph, nodes[1], nodes[2]), WINDLASS_OK);
    CHECK_IS(windlass_graph_precede(graph, nodes[2], 77), WINDLASS_INVALID);
    CHECK_IS(windlass_graph_run(graph, pool, 1, NULL), WINDLASS_GRAPH);
    CHECK_IS(windlass_graph_seal(graph), WINDLASS_OK);
    CHECK_IS(windlass_graph_add(graph, count_up, NULL, NULL), WINDLASS_GRAPH);
    atomic_store(&count, 0);
    CHECK_IS(windlass_graph_run(graph, pool, 100, &report), WINDLASS_OK);
    CHECK_IS(count, 300);
    CHECK_IS(report.runs, 100);
    CHECK_IS(windlass_graph_cancel(graph, nodes[0]), WINDLASS_OK);
    CHECK_IS(windlass_graph_run(graph, pool, 1, &report), WINDLASS_OK);
    CHECK_IS(count, 301);
    CHECK_IS(report.skipped, 3);
    CHECK_IS(windlass_graph_reset(graph), WINDLASS_OK);
    CHECK_IS(windlass_graph_cancel_run(graph), WINDLASS_OK);
    CHECK_IS(windlass_graph_run(graph, pool, 1, NULL), WINDLASS_OK);
    CHECK_IS(count, 304);
    CHECK_IS(windlass_graph_destroy(graph), WINDLASS_OK);
    CHECK_IS(windlass_graph_run(graph, pool, 1, NULL), WINDLASS_STALE);

    CHECK_IS(windlass_graph_create(&graph), WINDLASS_OK);
    CHECK_IS(windlass_graph_add(graph, count_up, NULL, &nodes[0]), WINDLASS_OK);
    CHECK_IS(windlass_graph_add_condition(graph, three_times, NULL, &nodes[1]), WINDLASS_OK);
    CHECK_IS(windlass_graph_add(graph, NULL, NULL, &nodes[2]), WINDLASS_OK);
    CHECK_IS(windlass_graph_precede(graph, nodes[2], nodes[0]), WINDLASS_OK);
    CHECK_IS(windlass_graph_precede(graph, nodes[0], nodes[1]), WINDLASS_OK);
    CHECK_IS(windlass_graph_precede(graph, nodes[1], nodes[0]), WINDLASS_OK);
    CHECK_IS(windlass_graph_seal(graph), WINDLASS_OK);
    atomic_store(&count, 0);
    CHECK_IS(windlass_graph_run(graph, pool, 1, NULL), WINDLASS_OK);
    CHECK_IS(count, 3);
    CHECK_IS(windlass_graph_destroy(graph), WINDLASS_OK);

    CHECK_IS(windlass_graph_create(&graph), WINDLASS_OK);
    CHECK_IS(windlass_graph_add(graph, NULL, NULL, &nodes[0]), WINDLASS_OK);
    CHECK_IS(windlass_graph_add(graph, NULL, NULL, &nodes[1]), WINDLASS_OK);
    CHECK_IS(windlass_graph_name(graph, nodes[1], "hen"), WINDLASS_OK);
    CHECK_IS(windlass_graph_precede(graph, nodes[0], nodes[1]), WINDLASS_OK);
    CHECK_IS(windlass_graph_precede(graph, nodes[1], nodes[0]), WINDLASS_OK);
    CHECK_IS(windlass_graph_seal(graph), WINDLASS_GRAPH);
    CHECK(strstr(windlass_last_error(), "hen") != NULL);
    CHECK_IS(windlass_graph_run(graph, pool, 1, NULL), WINDLASS_GRAPH);
    CHECK_IS(windlass_graph_destroy(graph), WINDLASS_OK);
}

static windlass_burst *burst;

static void handle(void *user, void *item) {
    windlass_status status = windlass_burst_wait_idle(burst);
    /* The last item is handled while the burst is destroyed. */
    CHECK(status == WINDLASS_DEADLOCK || status == WINDLASS_STALE);
    atomic_fetch_add((atomic_int *)user, (int)(intptr_t)item);
}

static void bursts_deliver_what_they_accept(void) {
    atomic_int sums[2] = {0, 0};
    unsigned worker = 9;
    void *items[100];
    CHECK_IS(windlass_burst_create(NULL, &burst), WINDLASS_OK);
    CHECK_IS(windlass_burst_send(burst, NULL), WINDLASS_REFUSED);
    for (int i = 0; i < 2; i++) {
        CHECK_IS(windlass_burst_add_worker(burst, handle, &sums[i], destroy_arg, &worker), WINDLASS_OK);
        CHECK_IS(worker, i);
    }
    int before = atomic_load(&destroyed_args);
    for (int i = 0; i < 100; i++) items[i] = (void *)(intptr_t)i;
    CHECK_IS(windlass_burst_send_all(burst, items, 100), WINDLASS_OK);
    CHECK_IS(windlass_burst_send(burst, (void *)50), WINDLASS_OK);
    CHECK_IS(windlass_burst_wait_idle(burst), WINDLASS_OK);
    CHECK_IS(sums[0] + sums[1], 5000);
    int first = sums[0];
    CHECK_IS(windlass_burst_dispatch_to(burst, 0, (void *)7), WINDLASS_OK);
    CHECK_IS(windlass_burst_dispatch_to(burst, 2, (void *)7), WINDLASS_REFUSED);
    CHECK_IS(windlass_burst_wait_idle(burst), WINDLASS_OK);
    CHECK_IS(sums[0], first + 7);
    while (windlass_burst_offer(burst, (void *)1) == WINDLASS_REFUSED) usleep(10);
    CHECK_IS(windlass_burst_destroy(burst), WINDLASS_OK);
    CHECK_IS(sums[0] + sums[1], 5008);
    CHECK_IS(destroyed_args, before + 2);
    CHECK_IS(windlass_burst_send(burst, NULL), WINDLASS_STALE);
}

static void shutdown_ends_in_the_way_it_is_told(void) {
    windlass_pool *made;
    windlass_pool_config config = {.size = sizeof config, .threads = 1};
    windlass_shutdown_report report = {.size = sizeof report};
    windlass_task_options options = {.size = sizeof options, .destroy_arg = destroy_arg};
    CHECK_IS(windlass_pool_create(&config, &made), WINDLASS_OK);
    CHECK_IS(windlass_pool_shutdown(made, 9, 0, NULL), WINDLASS_INVALID);
    atomic_store(&gate, 0);
    atomic_store(&count, 0);
    int before = atomic_load(&destroyed_args);
    atomic_store(&is_held, 0);
    CHECK_IS(windlass_spawn(made, hold, NULL, NULL, NULL), WINDLASS_OK);
    while (!atomic_load(&is_held)) usleep(100);
    for (int i = 0; i < 10; i++) CHECK_IS(windlass_spawn(made, add_one, NULL, &options, NULL), WINDLASS_OK);
    CHECK_IS(windlass_pool_shutdown(made, WINDLASS_CANCEL_QUEUED, 30, &report), WINDLASS_TIMEOUT);
    CHECK_IS(report.is_finished, 0);
    CHECK_IS(windlass_spawn(made, add_one, NULL, NULL, NULL), WINDLASS_CLOSED);
    CHECK_IS(windlass_pool_shutdown(made, WINDLASS_DRAIN, 30, &report), WINDLASS_STALE);
    atomic_store(&gate, 1);
    while (windlass_spawn(made, add_one, NULL, NULL, NULL) == WINDLASS_CLOSED) usleep(100);
    CHECK_IS(destroyed_args, before + 10);
    CHECK_IS(count, 0);

    CHECK_IS(windlass_pool_create(&config, &made), WINDLASS_OK);
    for (int i = 0; i < 10; i++) CHECK_IS(windlass_spawn(made, add_one, NULL, NULL, NULL), WINDLASS_OK);
    CHECK_IS(windlass_pool_shutdown(made, WINDLASS_DRAIN, 60000, &report), WINDLASS_OK);
    CHECK_IS(report.is_finished, 1);
    CHECK_IS(count, 10);
}

static void ca02_a_pool_is_destroyed_while_another_thread_waits(void) {
    windlass_pool *made;
    windlass_task *task;
    pthread_t waiter;
    windlass_pool_config config = {.size = sizeof config, .threads = 1};
    CHECK_IS(windlass_pool_create(&config, &made), WINDLASS_OK);
    atomic_store(&gate, 0);
    CHECK_IS(windlass_spawn(made, wait_for_gate, NULL, NULL, &task), WINDLASS_OK);
    pthread_create(&waiter, NULL, wait_for_task, task);
    usleep(5000);
    atomic_store(&gate, 1);
    CHECK_IS(windlass_pool_destroy(made), WINDLASS_OK);
    pthread_join(waiter, NULL);
    CHECK_IS(windlass_task_wait(task, NULL), WINDLASS_OK);
    CHECK_IS(windlass_task_release(task), WINDLASS_OK);
    CHECK_IS(windlass_pool_destroy(made), WINDLASS_STALE);
}

static void *signals_of_worker(void *arg) {
    sigset_t *signals = arg;
    pthread_sigmask(SIG_BLOCK, NULL, signals);
    CHECK(windlass_worker_index() >= 0);
    return NULL;
}

static void ca13_workers_leave_signals_to_the_program(void) {
    sigset_t signals;
    windlass_task *task;
    CHECK_IS(windlass_spawn(pool, signals_of_worker, &signals, NULL, &task), WINDLASS_OK);
    while (!windlass_task_is_done(task)) usleep(100);
    CHECK_IS(windlass_task_release(task), WINDLASS_OK);
    CHECK_IS(windlass_worker_index(), -1);
    CHECK(sigismember(&signals, SIGTERM) && sigismember(&signals, SIGCHLD) && !sigismember(&signals, SIGSEGV));
}

static void a_token_keeps_all_its_tasks_from_running(void) {
    windlass_pool *made;
    windlass_pool_config config = {.size = sizeof config, .threads = 1};
    windlass_token *token;
    CHECK_IS(windlass_pool_create(&config, &made), WINDLASS_OK);
    CHECK_IS(windlass_token_create(&token), WINDLASS_OK);
    windlass_task_options options = {.size = sizeof options, .cancel = token, .destroy_arg = destroy_arg};
    windlass_task *tasks[3];
    int args[3];
    atomic_store(&gate, 0);
    atomic_store(&count, 0);
    atomic_store(&destroyed_args, 0);
    CHECK_IS(windlass_spawn(made, wait_for_gate, NULL, NULL, NULL), WINDLASS_OK);
    for (int i = 0; i < 3; i++) CHECK_IS(windlass_spawn(made, add_one, &args[i], &options, &tasks[i]), WINDLASS_OK);
    CHECK_IS(windlass_token_is_cancelled(token), 0);
    CHECK_IS(windlass_token_cancel(token), WINDLASS_OK);
    CHECK_IS(windlass_token_is_cancelled(token), 1);
    CHECK_IS(windlass_token_destroy(token), WINDLASS_OK);
    CHECK_IS(windlass_token_cancel(token), WINDLASS_STALE);
    CHECK_IS(windlass_spawn(made, add_one, NULL, &options, NULL), WINDLASS_STALE);
    atomic_store(&gate, 1);
    for (int i = 0; i < 3; i++) {
        CHECK_IS(windlass_task_wait(tasks[i], NULL), WINDLASS_CANCELLED);
        CHECK_IS(windlass_task_release(tasks[i]), WINDLASS_OK);
    }
    CHECK_IS(windlass_pool_destroy(made), WINDLASS_OK);
    CHECK_IS(count, 0);
    CHECK_IS(destroyed_args, 3);
}

static windlass_task *foreign;

static void spawn_and_wait(void *arg) {
    windlass_task *own;
    CHECK_IS(windlass_spawn(arg, add_one, NULL, NULL, &own), WINDLASS_OK);
    CHECK_IS(windlass_task_wait(own, NULL), WINDLASS_OK);
    CHECK_IS(windlass_task_release(own), WINDLASS_OK);
    CHECK_IS(windlass_task_is_done(foreign), 0);
}

static void *wait_isolated(void *arg) {
    CHECK_IS(windlass_spawn(arg, add_one, NULL, NULL, &foreign), WINDLASS_OK);
    CHECK_IS(windlass_isolate(arg, spawn_and_wait, arg), WINDLASS_OK);
    return arg;
}

static void what_waits_in_isolation_runs_only_its_own(void) {
    windlass_pool *made;
    windlass_pool_config config = {.size = sizeof config, .threads = 1};
    windlass_task *task;
    CHECK_IS(windlass_pool_create(&config, &made), WINDLASS_OK);
    atomic_store(&count, 0);
    CHECK_IS(windlass_spawn(made, wait_isolated, made, NULL, &task), WINDLASS_OK);
    while (windlass_task_is_done(task) == 0) usleep(100);
    CHECK_IS(windlass_pool_destroy(made), WINDLASS_OK);
    CHECK_IS(windlass_task_release(task), WINDLASS_OK);
    CHECK_IS(windlass_task_release(foreign), WINDLASS_OK);
    CHECK_IS(count, 2);
}

static void open_gate(void *arg) {
    (void)arg;
    atomic_store(&gate, 1);
}

static void wait_until_open(void *arg) { wait_for_gate(arg); }

static void *block(void *arg) {
    CHECK_IS(windlass_blocking(wait_until_open, arg), WINDLASS_OK);
    return arg;
}

static void another_thread_takes_the_place_of_one_that_blocks(void) {
    windlass_pool *made;
    windlass_pool_config config = {.size = sizeof config, .threads = 1};
    CHECK_IS(windlass_pool_create(&config, &made), WINDLASS_OK);
    atomic_store(&gate, 0);
    CHECK_IS(windlass_spawn(made, block, NULL, NULL, NULL), WINDLASS_OK);
    /* Behind the one that blocks, on the only worker. */
    int nothing = 0;
    CHECK_IS(windlass_spawn_bytes(made, &nothing, sizeof nothing, open_gate), WINDLASS_OK);
    CHECK_IS(windlass_pool_destroy(made), WINDLASS_OK);
    atomic_store(&gate, 0);
    CHECK_IS(windlass_blocking(open_gate, NULL), WINDLASS_OK);
    CHECK_IS(gate, 1);
}

static void a_trace_and_a_drawing_are_shown_once(void) {
    int texts = 0;
    windlass_task *task;
    CHECK_IS(windlass_trace_start(pool), WINDLASS_OK);
    CHECK_IS(windlass_spawn(pool, add_one, NULL, NULL, &task), WINDLASS_OK);
    CHECK_IS(windlass_task_wait(task, NULL), WINDLASS_OK);
    CHECK_IS(windlass_task_release(task), WINDLASS_OK);
    windlass_wait_idle(pool);
    CHECK_IS(windlass_trace_take(pool, show_text, &texts), WINDLASS_OK);
    CHECK(strstr(shown, "traceEvents") != NULL || strstr(shown, "\"ph\"") != NULL);
    windlass_graph *graph;
    int numbers[3] = {0};
    void *args[3] = {&numbers[0], &numbers[1], &numbers[2]};
    windlass_edge edges[2] = {{0, 1}, {1, 2}};
    uint32_t first = 9;
    CHECK_IS(windlass_graph_create(&graph), WINDLASS_OK);
    CHECK_IS(windlass_graph_add_all(graph, count_up, args, 3, &first), WINDLASS_OK);
    CHECK_IS(first, 0);
    windlass_edge wrong[2] = {{0, 1}, {1, 3}};
    CHECK_IS(windlass_graph_precede_all(graph, wrong, 2), WINDLASS_INVALID);
    CHECK_IS(windlass_graph_precede_all(graph, edges, 2), WINDLASS_OK);
    CHECK_IS(windlass_graph_name(graph, 1, "middle"), WINDLASS_OK);
    CHECK_IS(windlass_graph_dot(graph, show_text, &texts), WINDLASS_GRAPH);
    CHECK_IS(windlass_graph_seal(graph), WINDLASS_OK);
    CHECK_IS(windlass_graph_dot(graph, show_text, &texts), WINDLASS_OK);
    CHECK(strstr(shown, "middle") != NULL);
    CHECK_IS(texts, 2);
    atomic_store(&count, 0);
    CHECK_IS(windlass_graph_run(graph, pool, 1, NULL), WINDLASS_OK);
    CHECK_IS(count, 3);
    CHECK_IS(windlass_graph_destroy(graph), WINDLASS_OK);
}

static windlass_burst *warm;

static void count_item(void *user, void *item) {
    (void)item;
    atomic_fetch_add((atomic_int *)user, 1);
}

static void send_some(void *arg) {
    for (int i = 0; i < 50; i++) CHECK_IS(windlass_burst_send(warm, arg), WINDLASS_OK);
    CHECK_IS(windlass_burst_wait_idle(warm), WINDLASS_OK);
}

static void a_burst_is_kept_hot_and_tells_all(void) {
    static atomic_int taken[2];
    int item = 0;
    CHECK_IS(windlass_burst_create(NULL, &warm), WINDLASS_OK);
    CHECK_IS(windlass_burst_broadcast(warm, &item), WINDLASS_REFUSED);
    for (int i = 0; i < 2; i++) {
        CHECK_IS(windlass_burst_add_worker(warm, count_item, &taken[i], NULL, NULL), WINDLASS_OK);
    }
    CHECK_IS(windlass_burst_broadcast(warm, &item), WINDLASS_OK);
    CHECK_IS(windlass_burst_wait_idle(warm), WINDLASS_OK);
    CHECK_IS(taken[0], 1);
    CHECK_IS(taken[1], 1);
    CHECK_IS(windlass_burst_while_hot(warm, send_some, &item), WINDLASS_OK);
    CHECK_IS(taken[0] + taken[1], 52);
    CHECK_IS(windlass_burst_destroy(warm), WINDLASS_OK);
}

static void destroy_traced(void *user, const char *text, size_t len) {
    (void)text, (void)len;
    CHECK_IS(windlass_pool_destroy(*(windlass_pool **)user), WINDLASS_OK);
}

/* The pool was kept while the trace was shown: who destroyed it there waited for oneself. */
static void whoever_is_shown_a_trace_may_destroy_the_pool(void) {
    windlass_pool *made;
    CHECK_IS(windlass_pool_create(NULL, &made), WINDLASS_OK);
    CHECK_IS(windlass_trace_start(made), WINDLASS_OK);
    CHECK_IS(windlass_trace_take(made, destroy_traced, &made), WINDLASS_OK);
    CHECK_IS(windlass_pool_destroy(made), WINDLASS_STALE);
}

static void counters_count(void) {
    unsigned threads = 0;
    uint64_t run = 0;
    windlass_counters counters = {.size = sizeof counters};
    CHECK_IS(windlass_pool_thread_count(pool, &threads), WINDLASS_OK);
    for (unsigned i = 0; i < threads; i++) {
        CHECK_IS(windlass_pool_counters(pool, i, &counters), WINDLASS_OK);
        run += counters.run;
    }
    CHECK(run > 100);
    CHECK_IS(windlass_pool_counters(pool, threads, &counters), WINDLASS_INVALID);
}

static void a_seed_makes_an_order(void) {
    windlass_pool *made;
    windlass_pool_config config = {.size = sizeof config, .is_deterministic = 1, .seed = 7};
    int orders[2][8];
    for (int round = 0; round < 2; round++) {
        atomic_store(&order_len, 0);
        CHECK_IS(windlass_pool_create(&config, &made), WINDLASS_OK);
        for (intptr_t i = 0; i < 8; i++) CHECK_IS(windlass_spawn(made, note, (void *)i, NULL, NULL), WINDLASS_OK);
        CHECK_IS(windlass_pool_destroy(made), WINDLASS_OK);
        CHECK_IS(order_len, 8);
        memcpy(orders[round], order, sizeof order);
    }
    CHECK(memcmp(orders[0], orders[1], sizeof order) == 0);
}

int main(void) {
    windlass_pool_config config = {.size = sizeof config, .threads = 3, .name = "whole"};
    CHECK_IS(windlass_pool_create(&config, &pool), WINDLASS_OK);
    RUN(the_library_is_the_one_of_the_header);
    RUN(ca10_a_config_of_another_version_is_read_as_far_as_it_goes);
    RUN(ca11_counts_and_names_that_cannot_be_are_refused_by_name);
    RUN(ca01_null_is_refused_by_every_function);
    RUN(c8_a_task_gives_its_result_to_every_wait_and_then_its_handle_back);
    RUN(ca03_a_pool_that_was_destroyed_is_stale_for_every_call);
    RUN(ca04_a_handle_that_was_given_back_is_stale_also_after_its_place_is_used_again);
    RUN(destructors_are_called_exactly_once);
    RUN(a_wait_has_its_time);
    RUN(several_threads_may_wait_for_one_task);
    RUN(ca05_a_wait_for_oneself_is_told);
    RUN(prepared_tasks_run_in_the_order_they_are_tied);
    RUN(a_tie_without_room_runs_others_with_nothing_locked);
    RUN(a_tie_that_takes_no_slot_needs_none);
    RUN(a_closure_is_built_in_its_place_and_runs_there);
    RUN(bytes_may_lie_anywhere);
    RUN(a_closure_that_is_cancelled_is_destroyed_instead);
    RUN(a_task_that_runs_for_want_of_room_may_destroy_its_pool);
    RUN(a_task_that_runs_for_want_of_room_spawns_while_its_pool_is_closed);
    RUN(more_closures_than_slots_run_all_the_same);
    RUN(joins_loops_and_predicates_wait_for_all);
    RUN(a_group_is_waited_for_with_what_its_tasks_spawn);
    RUN(graphs_are_checked_and_run_again_and_again);
    RUN(bursts_deliver_what_they_accept);
    RUN(shutdown_ends_in_the_way_it_is_told);
    RUN(ca02_a_pool_is_destroyed_while_another_thread_waits);
    RUN(ca13_workers_leave_signals_to_the_program);
    RUN(a_token_keeps_all_its_tasks_from_running);
    RUN(what_waits_in_isolation_runs_only_its_own);
    RUN(another_thread_takes_the_place_of_one_that_blocks);
    RUN(a_trace_and_a_drawing_are_shown_once);
    RUN(whoever_is_shown_a_trace_may_destroy_the_pool);
    RUN(a_burst_is_kept_hot_and_tells_all);
    RUN(counters_count);
    RUN(a_seed_makes_an_order);
    CHECK_IS(windlass_pool_destroy(pool), WINDLASS_OK);
    return 0;
}
