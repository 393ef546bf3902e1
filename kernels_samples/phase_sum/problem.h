// intensity[d][m] = |sum_j q_j exp(i m step (u_d . r_j))|^2 / count: scattering by point charges
// along lines of equidistant wave numbers, one line for each direction u_d.
#pragma once

struct Problem {
    int count;  // of charges
    int directions;
    int orders;  // wave numbers per direction
    float step;  // between neighbouring wave numbers
    const float4* charge;     // x, y, z, q
    const float4* direction;  // x, y, z, unused
    float* intensity;
};

void launch(const Problem& problem);
