/* Joins, nested as deep as the problem is. */
#include <stdio.h>
#include <stdlib.h>

#include "windlass.h"

typedef struct {
    windlass_pool *pool;
    int n;
    long value;
} call;

static void fib(void *arg) {
    call *self = arg;
    if (self->n < 2) {
        self->value = self->n;
        return;
    }
    call a = {self->pool, self->n - 1, 0}, b = {self->pool, self->n - 2, 0};
    windlass_join(self->pool, fib, &a, fib, &b);
    self->value = a.value + b.value;
}

int main(int count, char **arguments) {
    call first = {NULL, count > 1 ? atoi(arguments[1]) : 20, 0};
    if (windlass_pool_create(NULL, &first.pool) != WINDLASS_OK) return 1;
    fib(&first);
    printf("fib(%d) = %ld\n", first.n, first.value);
    windlass_pool_destroy(first.pool);
    return 0;
}
