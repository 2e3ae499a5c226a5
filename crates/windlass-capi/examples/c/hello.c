/* Tasks, a result, and a wait. */
#include <stdio.h>

#include "windlass.h"

static void *greet(void *name) {
    printf("hello, %s\n", (const char *)name);
    return NULL;
}

static void *square(void *number) {
    *(long *)number *= *(long *)number;
    return number;
}

int main(void) {
    windlass_pool *pool;
    windlass_task *task;
    void *result;
    long number = 12;
    if (windlass_pool_create(NULL, &pool) != WINDLASS_OK) {
        fprintf(stderr, "%s\n", windlass_last_error());
        return 1;
    }
    windlass_spawn(pool, greet, "world", NULL, NULL);
    windlass_wait_idle(pool);
    windlass_spawn(pool, square, &number, NULL, &task);
    windlass_task_wait(task, &result);
    printf("%ld\n", *(long *)result);
    windlass_task_release(task);
    windlass_pool_destroy(pool);
    return 0;
}
