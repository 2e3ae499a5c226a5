// The C and C++ side of `cargo xtask bench cpp`: `peer NAME SIZE THREADS` makes one subject, and takes a turn for each
// line that it reads, answering the seconds by the clock, in processor time, and in processor time since it began.
// Without arguments it lists the subjects. One process for each, so that none meets another one's threads.
#include <cstring>
#include <iostream>
#include <string>
#include <utility>

#include "peer.hpp"

static std::vector<Subject> All() {
    std::vector<Subject> all;
    for (const auto *some : {&kWindlass, &kQueues, &kTbb}) all.insert(all.end(), some->begin(), some->end());
    return all;
}

int main(int count, char **arguments) {
    if (count != 4) {
        for (const Subject &subject : All()) std::cout << subject.name << '\n';
        return 0;
    }
    for (const Subject &subject : All()) {
        if (std::strcmp(subject.name, arguments[1]) != 0) continue;
        Turn turn = subject.make(std::stoul(arguments[2]), static_cast<unsigned>(std::stoul(arguments[3])));
        for (std::string line; std::getline(std::cin, line);) {
            Timer timer;
            turn(timer);
            std::cout << timer.wall << ' ' << timer.cpu << ' ' << Timer::CpuTime() << std::endl;
        }
        return 0;
    }
    std::cerr << "no subject " << arguments[1] << '\n';
    return 2;
}
