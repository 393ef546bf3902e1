#include "problem.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "../harness/harness.h"

namespace {

// The inputs on the host.
struct Fields {
    int columns;
    std::vector<float> zenith, temperature, pressure, vapour, cloud, drop_class, updraught;
};

double saturation(double temperature, double pressure) {
    const double celsius = temperature - 273.15;
    const double push = 6.112 * std::exp(17.67 * celsius / (celsius + 243.5));
    return 622 * push / (pressure - push);
}

Fields drawn(harness::Random& random, int columns) {
    Fields fields;
    fields.columns = columns;
    for (auto* field : {&fields.temperature, &fields.pressure, &fields.vapour, &fields.cloud,
                        &fields.drop_class, &fields.updraught}) {
        field->reserve(size_t{kLevels} * columns);
    }
    for (int c = 0; c < columns; ++c) {
        fields.zenith.push_back(static_cast<float>(random.uniform(0, 80)));
    }
    for (int level = 0; level < kLevels; ++level) {
        for (int c = 0; c < columns; ++c) {
            const bool very_cold = random.uniform() < 0.003;
            const double temperature =
                very_cold ? random.uniform(228, 235) : 245 + 1.4 * level + random.uniform(-4, 4);
            const double pressure = 250 + 19 * level + random.uniform(-2, 2);
            const double humidity = random.uniform(0.7, 1.3);
            const double holds = saturation(temperature, pressure);
            fields.temperature.push_back(static_cast<float>(temperature));
            fields.pressure.push_back(static_cast<float>(pressure));
            fields.vapour.push_back(static_cast<float>(humidity * holds));
            fields.cloud.push_back(static_cast<float>(random.uniform(0.1, 2)));
            fields.drop_class.push_back(
                static_cast<float>(random.uniform(kReach, kClasses - kReach - 4.01)));
            fields.updraught.push_back(static_cast<float>(random.uniform(0, 2.99)));
        }
    }
    return fields;
}

struct Result {
    double temperature, vapour, cloud, rain;
};

// The drops of a column, in double precision.
class Drops {
public:
    Drops(float mean_class, float updraught, std::array<double, kClasses>& mass)
        : mode_(static_cast<int>(mean_class)), beyond_(mean_class - static_cast<float>(mode_)),
          hop_(1 + static_cast<int>(updraught)), vigour_(0.1 + 0.1 * updraught), mass_(mass) {}

    void form(double& cloud) {
        const double formed = 0.1 * std::max(cloud - 0.2, 0.0);
        cloud -= formed;
        mass_[mode_] += formed * (1 - beyond_);
        mass_[mode_ + 1] += formed * beyond_;
    }
    void grow(double& cloud) {
        double growing = 0;
        for (int k = mode_ + kReach; k >= mode_ - kReach; --k) {
            const double moved = vigour_ * mass_[k];
            mass_[k] -= moved;
            mass_[k + hop_] += moved;
            growing += moved;
        }
        const double collected = cloud * (1 - std::exp(-0.3 * growing));
        cloud -= collected;
        mass_[mode_] += collected;
    }
    void break_up() {
        for (int k = mode_ - kReach; k <= mode_ + kReach; ++k) {
            const double shed = 0.08 * k / kClasses * mass_[k];
            mass_[k] -= shed;
            mass_[std::max(k - 2 * hop_, 0)] += shed;
        }
    }
    double fall() {
        double rain = 0;
        for (int k = mode_ - kReach; k <= mode_ + kReach; ++k) {
            const double falls = 0.02 * (k + 1) * mass_[k];
            mass_[k] -= falls;
            rain += falls;
        }
        return rain;
    }

private:
    int mode_;
    double beyond_;
    int hop_;
    double vigour_;
    std::array<double, kClasses>& mass_;
};

double frozen_share(double cloud, double found) {
    const double radius = 5 * std::cbrt(cloud + 0.01);
    const double volume = 4.18879 * radius * radius * radius;
    const double nucleation = std::exp(0.9 * (236 - found)) * std::pow(volume, 0.77);
    const double activity = 1 - std::exp(-1e-3 * nucleation * std::log(2 + radius));
    return activity * std::pow(activity + 0.1, 0.2) * 0.9;
}

Result expected(const Fields& fields, int column, int last_level) {
    const double zenith = fields.zenith[column];
    const double slant = 1 / (std::cos(zenith / 180 * 3.141592653589793) +
                              0.50572 * std::pow(96.07995 - zenith, -1.6364));
    double light = 1000 / slant;
    std::array<double, kClasses> mass{};
    Result result{};
    for (int level = 0; level <= last_level; ++level) {
        const size_t here = size_t(level) * fields.columns + column;
        const float found = fields.temperature[here];
        double temperature = found;
        double vapour = fields.vapour[here];
        double cloud = fields.cloud[here];
        Drops drops(fields.drop_class[here], fields.updraught[here], mass);

        const double absorbed = light * (1 - std::exp(-0.05 * cloud * slant));
        temperature += 0.01 * absorbed;
        light -= absorbed;
        const double holds = saturation(temperature, fields.pressure[here]);
        const double warmth = temperature - 273.15 + 243.5;
        const double slope = holds * 17.67 * 243.5 / (warmth * warmth);
        const double condensed = std::max((vapour - holds) / (1 + 2.49 * slope), -cloud);
        vapour -= condensed;
        cloud += condensed;
        temperature += 2.49 * condensed;
        drops.form(cloud);
        drops.grow(cloud);
        drops.break_up();
        const double rain = drops.fall();
        const double evaporated = 0.05 * std::max(1 - vapour / holds, 0.0) * rain;
        vapour += evaporated;
        temperature -= 2.49 * evaporated;
        const double frozen = found < 236 ? cloud * frozen_share(cloud, found) : 0;
        result = {temperature + 0.33 * frozen, vapour, cloud - frozen, rain - evaporated + frozen};
    }
    return result;
}

}  // namespace

int main(int argc, char** argv) {
    harness::Run run(argc, argv);
    const int columns = 196608;
    const size_t size = size_t{kLevels} * columns;
    const Fields fields = drawn(run.random(), columns);
    const Problem problem{columns,
                          run.input(fields.zenith),
                          run.input(fields.temperature),
                          run.input(fields.pressure),
                          run.input(fields.vapour),
                          run.input(fields.cloud),
                          run.input(fields.drop_class),
                          run.input(fields.updraught),
                          run.output<float>(size),
                          run.output<float>(size),
                          run.output<float>(size),
                          run.output<float>(size)};

    run.measure([&] { launch(problem); });

    const auto check = [&](const float* result, harness::Tolerance tolerance,
                           double Result::*part) {
        run.check(run.fetch(result, size), 1024, tolerance, [&](size_t i) {
            return expected(fields, i % columns, i / columns).*part;
        });
    };
    check(problem.temperature_out, {1e-5, 0}, &Result::temperature);
    check(problem.vapour_out, {1e-4, 1e-4}, &Result::vapour);
    check(problem.cloud_out, {1e-4, 1e-4}, &Result::cloud);
    check(problem.rain_out, {1e-4, 1e-4}, &Result::rain);
    return run.finish();
}
