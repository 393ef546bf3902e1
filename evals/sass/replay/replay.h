// Records which items of each array the loads of one kernel launch touch.
//
// A kernel's replay calls `Loads::at` wherever the kernel executes a load, in the same loops and
// under the same conditions. The launch is run thread by thread; nothing is extrapolated.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <string>
#include <utility>
#include <vector>

struct Dim {
    int x = 1, y = 1, z = 1;
};

// The loads of one pointer that the report's line table has on the same source lines.
class Loads {
public:
    Loads(std::vector<int> lines, std::vector<uint8_t>& touched, int number)
        : lines_(std::move(lines)),
          touched_(touched.data()),
          size_(static_cast<int64_t>(touched.size())),
          bit_(static_cast<uint8_t>(1u << number)) {}

    // One thread loads `count` neighbouring items, `item` being the first.
    void at(int64_t item, int count = 1) {
        if (item < 0 || item + count > size_) {
            std::fprintf(stderr, "line %d: item %lld is outside the array\n", lines_[0],
                         static_cast<long long>(item));
            std::exit(1);
        }
        for (int i = 0; i < count; ++i) touched_[item + i] |= bit_;
        requested_ += count;
    }

    const std::vector<int>& lines() const { return lines_; }
    int64_t requested() const { return requested_; }
    uint8_t bit() const { return bit_; }

private:
    std::vector<int> lines_;
    uint8_t* touched_;
    int64_t size_;
    uint8_t bit_;
    int64_t requested_ = 0;
};

// An array that a pointer argument leads to. `size` is the number of items that the program
// allocates: a load beyond them ends the replay with an error.
class Array {
public:
    Array(std::string name, int argument, int offset, int item_bytes, int64_t size)
        : name(std::move(name)),
          argument(argument),
          offset(offset),
          item_bytes(item_bytes),
          touched_(static_cast<size_t>(size)) {}

    Loads& loads(std::vector<int> lines) {
        if (loads_.size() == 8) std::abort();  // one bit per item for each
        return loads_.emplace_back(std::move(lines), touched_, static_cast<int>(loads_.size()));
    }

    int64_t distinct(uint8_t bits) const {
        int64_t count = 0;
        for (const uint8_t each : touched_) count += (each & bits) != 0;
        return count;
    }
    const std::deque<Loads>& all_loads() const { return loads_; }

    const std::string name;
    const int argument;    // number of the kernel parameter, from 0
    const int offset;      // of the pointer in a parameter that is a struct, in bytes
    const int item_bytes;  // the widest unit that every load of the array is a multiple of

private:
    std::vector<uint8_t> touched_;  // per item, one bit for each of `loads_`
    std::deque<Loads> loads_;       // addresses must not change: kernels hold references
};

class Kernel {
public:
    // Paths are relative to the repository; `launch` is the launch's number in the report.
    void describe(std::string report, int launch, std::string name, std::string how) {
        report_ = std::move(report);
        launch_ = launch;
        name_ = std::move(name);
        how_ = std::move(how);
    }

    Array& array(std::string name, int argument, int item_bytes, int64_t size, int offset = 0) {
        return arrays_.emplace_back(std::move(name), argument, offset, item_bytes, size);
    }

    // Calls body(block, thread) for every thread of the launch.
    template <class Body>
    void run(Dim grid, Dim block, Body body) {
        grid_ = grid;
        block_ = block;
        Dim b, t;
        for (b.z = 0; b.z < grid.z; ++b.z)
            for (b.y = 0; b.y < grid.y; ++b.y)
                for (b.x = 0; b.x < grid.x; ++b.x)
                    for (t.z = 0; t.z < block.z; ++t.z)
                        for (t.y = 0; t.y < block.y; ++t.y)
                            for (t.x = 0; t.x < block.x; ++t.x) body(b, t);
    }

    // One line of JSON. The texts contain no characters that JSON has to escape.
    void print() const {
        std::printf("{\"report\": \"%s\", \"launch\": %d, \"name\": \"%s\", \"how\": \"%s\"",
                    report_.c_str(), launch_, name_.c_str(), how_.c_str());
        std::printf(", \"grid\": [%d, %d, %d], \"block\": [%d, %d, %d], \"arrays\": [", grid_.x,
                    grid_.y, grid_.z, block_.x, block_.y, block_.z);
        for (size_t i = 0; i < arrays_.size(); ++i) {
            if (i) std::printf(", ");
            print_array(arrays_[i]);
        }
        std::printf("]}\n");
        std::fflush(stdout);
    }

private:
    static void print_array(const Array& array) {
        int64_t requested = 0;
        for (const Loads& loads : array.all_loads()) requested += loads.requested();
        std::printf("{\"pointer\": \"%s\", \"argument\": %d, \"offset\": %d, ", array.name.c_str(),
                    array.argument, array.offset);
        print_bytes(array, requested, 0xFF);
        std::printf(", \"loads\": [");
        const char* separator = "";
        for (const Loads& loads : array.all_loads()) {
            std::printf("%s{\"lines\": [", separator);
            for (size_t i = 0; i < loads.lines().size(); ++i) {
                std::printf(i ? ", %d" : "%d", loads.lines()[i]);
            }
            std::printf("], ");
            print_bytes(array, loads.requested(), loads.bit());
            std::printf("}");
            separator = ", ";
        }
        std::printf("]}");
    }
    static void print_bytes(const Array& array, int64_t requested, uint8_t bits) {
        std::printf("\"requested_bytes\": %lld, \"distinct_bytes\": %lld",
                    static_cast<long long>(requested * array.item_bytes),
                    static_cast<long long>(array.distinct(bits) * array.item_bytes));
    }

    std::string report_, name_, how_;
    int launch_ = 0;
    Dim grid_, block_;
    std::deque<Array> arrays_;  // addresses must not change: kernels hold references
};

using Replay = void (*)(Kernel&);
