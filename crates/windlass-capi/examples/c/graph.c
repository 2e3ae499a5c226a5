/* (a + b) * (c + d) as a graph that is built once and run three times. */
#include <stdio.h>

#include "windlass.h"

static long a, b, c, d, ab, cd, product;

static void get_a(void *arg) { a = *(long *)arg; }
static void get_b(void *arg) { b = *(long *)arg + 1; }
static void get_c(void *arg) { c = *(long *)arg + 2; }
static void get_d(void *arg) { d = *(long *)arg + 3; }
static void add_ab(void *arg) { ab = a + b, (void)arg; }
static void add_cd(void *arg) { cd = c + d, (void)arg; }
static void multiply(void *arg) { product = ab * cd, (void)arg; }

int main(void) {
    void (*functions[])(void *) = {get_a, get_b, get_c, get_d, add_ab, add_cd, multiply};
    unsigned edges[][2] = {{0, 4}, {1, 4}, {2, 5}, {3, 5}, {4, 6}, {5, 6}};
    windlass_pool *pool;
    windlass_graph *graph;
    long start = 0;
    if (windlass_pool_create(NULL, &pool) != WINDLASS_OK || windlass_graph_create(&graph) != WINDLASS_OK) return 1;
    for (unsigned i = 0; i < 7; i++) windlass_graph_add(graph, functions[i], &start, NULL);
    for (unsigned i = 0; i < 6; i++) windlass_graph_precede(graph, edges[i][0], edges[i][1]);
    if (windlass_graph_seal(graph) != WINDLASS_OK) {
        fprintf(stderr, "%s\n", windlass_last_error());
        return 1;
    }
    for (start = 1; start <= 3; start++) {
        windlass_graph_run(graph, pool, 1, NULL);
        printf("%ld\n", product);
    }
    windlass_graph_destroy(graph);
    windlass_pool_destroy(pool);
    return 0;
}
