/* What the C and C++ tests are written with. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);                              \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

#define CHECK_IS(left, right)                                                                                          \
    do {                                                                                                               \
        long long left_value = (long long)(left), right_value = (long long)(right);                                    \
        if (left_value != right_value) {                                                                               \
            fprintf(stderr, "%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #left, left_value, right_value);      \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* Runs a test, and says that it passed. */
#define RUN(test)                                                                                                      \
    do {                                                                                                               \
        test();                                                                                                        \
        printf("ok %s\n", #test);                                                                                      \
        fflush(stdout);                                                                                                \
    } while (0)

#endif
