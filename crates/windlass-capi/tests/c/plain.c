/* pool.h: its promises, and the C-* hazards of docs/pool-hazards.md. */
#define _GNU_SOURCE
#include "pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "windlass.h"

static atomic_int count;

static void *add_one(void *arg) {
    (void)arg;
    atomic_fetch_add(&count, 1);
    return NULL;
}

static void *add_to(void *arg) {
    *(int *)arg += 1;
    return arg;
}

static void nonsense_is_refused_and_crashes_nothing(void) {
    CHECK(thread_pool_create(0) == NULL);
    CHECK(thread_pool_create(-1) == NULL);
    CHECK(thread_pool_create(INT32_MIN) == NULL);
    CHECK(thread_pool_create(INT32_MAX) == NULL);
    CHECK_IS(thread_pool_submit(NULL, add_one, NULL), 0);
    CHECK_IS(thread_pool_submit((thread_pool_t *)(uintptr_t)0xDEADBEEF, add_one, NULL), 0);
    thread_pool_destroy(NULL);
    thread_pool_destroy((thread_pool_t *)(uintptr_t)8);
    thread_pool_t *pool = thread_pool_create(1);
    CHECK_IS(thread_pool_submit(pool, NULL, NULL), 0);
    thread_pool_destroy(pool);
}

static void destroy_completes_every_submitted_task(void) {
    atomic_store(&count, 0);
    thread_pool_t *pool = thread_pool_create(3);
    for (int i = 0; i < 20000; i++) CHECK_IS(thread_pool_submit(pool, add_one, NULL), 1);
    thread_pool_destroy(pool);
    CHECK_IS(atomic_load(&count), 20000);
}

static void a_pool_that_was_destroyed_takes_nothing_and_is_not_destroyed_twice(void) {
    thread_pool_t *pool = thread_pool_create(2);
    thread_pool_destroy(pool);
    CHECK_IS(thread_pool_submit(pool, add_one, NULL), 0);
    thread_pool_destroy(pool);
    thread_pool_t *next = thread_pool_create(2);
    CHECK(next != pool);
    CHECK_IS(thread_pool_submit(pool, add_one, NULL), 0);
    thread_pool_destroy(pool);
    CHECK_IS(thread_pool_submit(next, add_one, NULL), 1);
    thread_pool_destroy(next);
}

static void c1_destroy_wakes_every_worker_however_soon_it_comes(void) {
    for (int i = 0; i < 1000; i++) {
        thread_pool_t *pool = thread_pool_create(2);
        CHECK(pool != NULL);
        if (i % 2) CHECK_IS(thread_pool_submit(pool, add_one, NULL), 1);
        thread_pool_destroy(pool);
    }
}

static atomic_int submitted;

static void *submit_until_refused(void *arg) {
    thread_pool_t *pool = *(thread_pool_t **)arg;
    while (thread_pool_submit(pool, add_one, NULL)) atomic_fetch_add(&submitted, 1);
    return NULL;
}

static void c2_c7_submitting_while_the_pool_is_destroyed_is_answered(void) {
    for (int round = 0; round < 30; round++) {
        atomic_store(&count, 0);
        atomic_store(&submitted, 0);
        thread_pool_t *pool = thread_pool_create(2);
        pthread_t threads[4];
        for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, submit_until_refused, &pool);
        while (atomic_load(&submitted) < 100) usleep(10);
        thread_pool_destroy(pool);
        for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
        CHECK_IS(atomic_load(&count), atomic_load(&submitted));
    }
}

static void c3_the_argument_is_the_callers_on_the_stack_static_or_null(void) {
    static int in_memory = 1;
    int on_stack = 1;
    int *on_heap = malloc(sizeof *on_heap);
    *on_heap = 1;
    thread_pool_t *pool = thread_pool_create(2);
    CHECK_IS(thread_pool_submit(pool, add_to, &on_stack), 1);
    CHECK_IS(thread_pool_submit(pool, add_to, &in_memory), 1);
    CHECK_IS(thread_pool_submit(pool, add_to, on_heap), 1);
    CHECK_IS(thread_pool_submit(pool, add_one, NULL), 1);
    thread_pool_destroy(pool);
    CHECK_IS(on_stack + in_memory + *on_heap, 6);
    free(on_heap);
}

static void c5_a_count_is_not_cut_off_to_a_byte(void) {
    thread_pool_t *pool = thread_pool_create(256);
    unsigned threads = 0;
    CHECK(pool != NULL);
    CHECK_IS(windlass_pool_thread_count((windlass_pool *)pool, &threads), WINDLASS_OK);
    CHECK_IS(threads, 256);
    thread_pool_destroy(pool);
}

static void c6_threads_that_cannot_be_had_are_told_and_nothing_is_left(void) {
    windlass_pool_config config = {.size = sizeof config};
    windlass_pool *pool = (windlass_pool *)&config;
    config.threads = 2;
    config.stack_size = (size_t)1 << 60;
    CHECK_IS(windlass_pool_create(&config, &pool), WINDLASS_NO_THREAD);
    CHECK(pool == NULL);
}

static void *submit_again(void *arg) {
    thread_pool_submit(*(thread_pool_t **)arg, add_one, NULL);
    return NULL;
}

static void tasks_submit_tasks(void) {
    atomic_store(&count, 0);
    thread_pool_t *pool = thread_pool_create(2);
    for (int i = 0; i < 1000; i++) CHECK_IS(thread_pool_submit(pool, submit_again, &pool), 1);
    windlass_wait_idle((windlass_pool *)pool);
    CHECK_IS(atomic_load(&count), 1000);
    thread_pool_destroy(pool);
}

static void *destroy_own_pool(void *arg) {
    thread_pool_destroy(*(thread_pool_t **)arg);
    atomic_fetch_add(&count, 1);
    return NULL;
}

static void c7_a_task_may_destroy_its_own_pool(void) {
    atomic_store(&count, 0);
    thread_pool_t *pool = thread_pool_create(1);
    CHECK_IS(thread_pool_submit(pool, destroy_own_pool, &pool), 1);
    int accepted = 1;
    for (int i = 0; i < 100; i++) accepted += thread_pool_submit(pool, add_one, NULL);
    while (atomic_load(&count) < accepted) usleep(100);
    while (thread_pool_submit(pool, add_one, NULL)) usleep(100);
    CHECK(atomic_load(&count) >= accepted);
}

static thread_pool_t *shared;

static void *submit_many(void *arg) {
    (void)arg;
    for (int i = 0; i < 2000; i++) CHECK_IS(thread_pool_submit(shared, add_one, NULL), 1);
    return NULL;
}

static void *destroy_shared(void *arg) {
    (void)arg;
    thread_pool_destroy(shared);
    return NULL;
}

static void *create_shared(void *arg) {
    (void)arg;
    shared = thread_pool_create(2);
    return NULL;
}

static void ca06_made_by_one_thread_used_by_sixteen_destroyed_by_another(void) {
    pthread_t one, sixteen[16];
    atomic_store(&count, 0);
    pthread_create(&one, NULL, create_shared, NULL);
    pthread_join(one, NULL);
    for (int i = 0; i < 16; i++) pthread_create(&sixteen[i], NULL, submit_many, NULL);
    for (int i = 0; i < 16; i++) pthread_join(sixteen[i], NULL);
    pthread_create(&one, NULL, destroy_shared, NULL);
    pthread_join(one, NULL);
    CHECK_IS(atomic_load(&count), 32000);
}

static long resident_pages(void) {
    long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file != NULL) {
        CHECK_IS(fscanf(file, "%ld %ld", &size, &resident), 2);
        fclose(file);
    }
    return resident;
}

static void ca12_a_thousand_pools_leave_nothing_behind(void) {
    long before = 0;
    for (int i = 0; i < 1100; i++) {
        if (i == 100) before = resident_pages();
        thread_pool_t *pool = thread_pool_create(2);
        CHECK_IS(thread_pool_submit(pool, add_one, NULL), 1);
        thread_pool_destroy(pool);
    }
    CHECK(resident_pages() < before + 1024);
}

static void ca09_a_forked_child_is_told_and_does_not_hang(void) {
    thread_pool_t *pool = thread_pool_create(2);
    CHECK_IS(thread_pool_submit(pool, add_one, NULL), 1);
    fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        int is_good = thread_pool_submit(pool, add_one, NULL) == 0;
        is_good &= windlass_wait_idle((windlass_pool *)pool) == WINDLASS_FORKED;
        is_good &= windlass_pool_destroy((windlass_pool *)pool) == WINDLASS_FORKED;
        thread_pool_destroy(pool);
        _exit(is_good ? 0 : 1);
    }
    int status = -1;
    CHECK_IS(waitpid(child, &status, 0), child);
    CHECK_IS(status, 0);
    CHECK_IS(thread_pool_submit(pool, add_one, NULL), 1);
    thread_pool_destroy(pool);
}

int main(void) {
    RUN(ca09_a_forked_child_is_told_and_does_not_hang);
    RUN(nonsense_is_refused_and_crashes_nothing);
    RUN(destroy_completes_every_submitted_task);
    RUN(a_pool_that_was_destroyed_takes_nothing_and_is_not_destroyed_twice);
    RUN(c1_destroy_wakes_every_worker_however_soon_it_comes);
    RUN(c2_c7_submitting_while_the_pool_is_destroyed_is_answered);
    RUN(c3_the_argument_is_the_callers_on_the_stack_static_or_null);
    RUN(c5_a_count_is_not_cut_off_to_a_byte);
    RUN(c6_threads_that_cannot_be_had_are_told_and_nothing_is_left);
    RUN(tasks_submit_tasks);
    RUN(c7_a_task_may_destroy_its_own_pool);
    RUN(ca06_made_by_one_thread_used_by_sixteen_destroyed_by_another);
    RUN(ca12_a_thousand_pools_leave_nothing_behind);
    return 0;
}
