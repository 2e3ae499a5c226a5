// Compiles where oneTBB is installed.
#include <tbb/task_group.h>
