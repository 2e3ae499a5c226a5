/* A pool as one writes it in an afternoon: for each thread a list, a mutex and a condition. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "tasks.h"

static atomic_size_t done;

void adds_begin(void) { atomic_store(&done, 0); }

void *adds(void *arg) {
    volatile int sum = 0;
    for (int i = 0; i < 100; i++) sum = sum + 1;
    atomic_fetch_add_explicit(&done, 1, memory_order_relaxed);
    return arg;
}

size_t adds_done(void) { return atomic_load(&done); }

struct item {
    void *(*function)(void *);
    void *arg;
    struct item *next;
};

struct queue {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct item *first;
    struct item **last;
    int is_ending;
};

struct queue_pool {
    int thread_count;
    int next;
    struct queue queues[];
};

static void *work(void *arg) {
    struct queue *queue = arg;
    for (;;) {
        pthread_mutex_lock(&queue->mutex);
        while (queue->first == NULL && !queue->is_ending) pthread_cond_wait(&queue->changed, &queue->mutex);
        struct item *item = queue->first;
        if (item != NULL) queue->first = item->next;
        if (queue->first == NULL) queue->last = &queue->first;
        pthread_mutex_unlock(&queue->mutex);
        if (item == NULL) return NULL;
        item->function(item->arg);
        free(item);
    }
}

queue_pool *queue_pool_create(int thread_count) {
    queue_pool *pool = calloc(1, sizeof *pool + (size_t)thread_count * sizeof pool->queues[0]);
    if (pool == NULL) return NULL;
    pool->thread_count = thread_count;
    for (int i = 0; i < thread_count; i++) {
        struct queue *queue = &pool->queues[i];
        pthread_mutex_init(&queue->mutex, NULL);
        pthread_cond_init(&queue->changed, NULL);
        queue->last = &queue->first;
        if (pthread_create(&queue->thread, NULL, work, queue) != 0) abort();
    }
    return pool;
}

int queue_pool_submit(queue_pool *pool, void *(*function)(void *), void *arg) {
    struct item *item = malloc(sizeof *item);
    if (item == NULL) return 0;
    *item = (struct item){function, arg, NULL};
    struct queue *queue = &pool->queues[pool->next];
    pool->next = (pool->next + 1) % pool->thread_count;
    pthread_mutex_lock(&queue->mutex);
    *queue->last = item;
    queue->last = &item->next;
    pthread_cond_signal(&queue->changed);
    pthread_mutex_unlock(&queue->mutex);
    return 1;
}

void queue_pool_destroy(queue_pool *pool) {
    for (int i = 0; i < pool->thread_count; i++) {
        struct queue *queue = &pool->queues[i];
        pthread_mutex_lock(&queue->mutex);
        queue->is_ending = 1;
        pthread_cond_signal(&queue->changed);
        pthread_mutex_unlock(&queue->mutex);
    }
    for (int i = 0; i < pool->thread_count; i++) {
        pthread_join(pool->queues[i].thread, NULL);
        pthread_mutex_destroy(&pool->queues[i].mutex);
        pthread_cond_destroy(&pool->queues[i].changed);
    }
    free(pool);
}
