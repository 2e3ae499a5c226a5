/* exit() while tasks run: from main, or, with an argument, from a task. It waits for nothing and hangs nowhere. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <unistd.h>

#include "pool.h"

static void *work(void *arg) {
    (void)arg;
    usleep(1000);
    return NULL;
}

static void *leave(void *arg) {
    (void)arg;
    exit(0);
}

int main(int count, char **arguments) {
    (void)arguments;
    thread_pool_t *pool = thread_pool_create(4);
    for (int i = 0; i < 1000; i++) thread_pool_submit(pool, work, NULL);
    thread_pool_submit(pool, count > 1 ? leave : work, NULL);
    if (count > 1) {
        for (;;) pause();
    }
    exit(0);
}
