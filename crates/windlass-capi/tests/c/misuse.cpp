// What a callback must not do: the process ends with a message, and does not go on with half of something.
#include <pthread.h>

#include <csignal>
#include <cstdlib>
#include <cstring>

#include "pool.h"

static void *Throw(void *) { throw 1; }
static void *Leave(void *) { pthread_exit(nullptr); }

int main(int count, char **arguments) {
    if (count < 2) return 2;
    thread_pool_t *pool = thread_pool_create(1);
    thread_pool_submit(pool, std::strcmp(arguments[1], "throw") == 0 ? Throw : Leave, nullptr);
    thread_pool_destroy(pool);
    return 0;
}
