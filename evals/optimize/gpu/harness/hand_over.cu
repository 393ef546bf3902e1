// In a checker, launch() hands the Problem over: the referee passes it on to the candidates.
#include "problem.h"

#include <type_traits>

#include "harness.h"

void launch(const Problem& problem) {
    static_assert(std::is_trivially_copyable<Problem>::value, "a Problem travels as bytes");
    harness::hand_over(&problem, sizeof problem);
}
