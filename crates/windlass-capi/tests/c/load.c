/* The shared library by dlopen: used, closed, opened again, while its threads live. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "pool.h"

static atomic_int count;

static void *add_one(void *arg) {
    usleep(200);
    atomic_fetch_add(&count, 1);
    return arg;
}

static void *find(void *library, const char *name) {
    void *found = dlsym(library, name);
    CHECK(found != NULL);
    return found;
}

int main(int arguments, char **names) {
    CHECK_IS(arguments, 2);
    for (int round = 0; round < 20; round++) {
        thread_pool_t *(*create)(int);
        int (*submit)(thread_pool_t *, void *(*)(void *), void *);
        void (*destroy)(thread_pool_t *);
        void *library = dlopen(names[1], RTLD_NOW | RTLD_LOCAL), *found;
        CHECK(library != NULL);
        found = find(library, "thread_pool_create"), memcpy(&create, &found, sizeof found);
        found = find(library, "thread_pool_submit"), memcpy(&submit, &found, sizeof found);
        found = find(library, "thread_pool_destroy"), memcpy(&destroy, &found, sizeof found);
        thread_pool_t *pool = create(2);
        for (int i = 0; i < 20; i++) CHECK_IS(submit(pool, add_one, NULL), 1);
        CHECK_IS(dlclose(library), 0);
        destroy(pool);
        CHECK_IS(atomic_load(&count), 20 * (round + 1));
    }
    return 0;
}
