#include <pool.h>

static int sum;

static void *add(void *arg) {
    sum += *(int *)arg;
    return 0;
}

int main(void) {
    int number = 42;
    thread_pool_t *pool = thread_pool_create(1);
    if (!thread_pool_submit(pool, add, &number)) return 1;
    thread_pool_destroy(pool);
    return sum == 42 ? 0 : 1;
}
