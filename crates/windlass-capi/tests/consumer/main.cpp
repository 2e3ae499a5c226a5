#include <windlass.hpp>

int main() {
    windlass::ThreadPool pool(2);
    return pool.Async([] { return 42; }).Get() == 42 ? 0 : 1;
}
