// Transposes of matrices: out[x][y] = in[y][x], row-major.
#include "../../harness/book.h"

template <class T>
struct Data {
    int rows, columns;
    const T* in;
    T* out;
};

//: shared
constexpr int kTile = 32;

inline dim3 tiles(int rows, int columns) {
    return dim3((columns + kTile - 1) / kTile, (rows + kTile - 1) / kTile);
}

template <class T, int Pad>
__global__ void flip_tile(const T* in, T* out, int rows, int columns) {
    __shared__ T tile[kTile][kTile + Pad];
    const int x = blockIdx.x * kTile + threadIdx.x;
    for (int j = threadIdx.y; j < kTile; j += 8) {
        const int y = blockIdx.y * kTile + j;
        if (x < columns && y < rows) tile[j][threadIdx.x] = in[size_t(y) * columns + x];
    }
    __syncthreads();
    const int to_x = blockIdx.y * kTile + threadIdx.x;
    for (int j = threadIdx.y; j < kTile; j += 8) {
        const int to_y = blockIdx.x * kTile + j;
        if (to_x < rows && to_y < columns) {
            out[size_t(to_y) * rows + to_x] = tile[threadIdx.x][j];
        }
    }
}
//: end

//: variant rows_in
template <class T>
__global__ void flip_rows_in(const T* in, T* out, int rows, int columns) {
    const int x = blockIdx.x * kTile + threadIdx.x;
    for (int j = threadIdx.y; j < kTile; j += 8) {
        const int y = blockIdx.y * kTile + j;
        if (x < columns && y < rows) out[size_t(x) * rows + y] = in[size_t(y) * columns + x];
    }
}

template <class T>
void rows_in(const Data<T>& d) {
    flip_rows_in<<<tiles(d.rows, d.columns), dim3(kTile, 8)>>>(d.in, d.out, d.rows, d.columns);
}
//: end

//: variant rows_out
template <class T>
__global__ void flip_rows_out(const T* in, T* out, int rows, int columns) {
    const int y = blockIdx.y * kTile + threadIdx.x;
    for (int j = threadIdx.y; j < kTile; j += 8) {
        const int x = blockIdx.x * kTile + j;
        if (x < columns && y < rows) out[size_t(x) * rows + y] = in[size_t(y) * columns + x];
    }
}

template <class T>
void rows_out(const Data<T>& d) {
    flip_rows_out<<<tiles(d.rows, d.columns), dim3(kTile, 8)>>>(d.in, d.out, d.rows, d.columns);
}
//: end

//: variant tile_32
template <class T>
void tile_32(const Data<T>& d) {
    flip_tile<T, 0><<<tiles(d.rows, d.columns), dim3(kTile, 8)>>>(d.in, d.out, d.rows, d.columns);
}
//: end

//: variant tile_33
template <class T>
void tile_33(const Data<T>& d) {
    flip_tile<T, 1><<<tiles(d.rows, d.columns), dim3(kTile, 8)>>>(d.in, d.out, d.rows, d.columns);
}
//: end

//: variant tile_34
template <class T>
void tile_34(const Data<T>& d) {
    flip_tile<T, 2><<<tiles(d.rows, d.columns), dim3(kTile, 8)>>>(d.in, d.out, d.rows, d.columns);
}
//: end

//: variant tile_36
template <class T>
void tile_36(const Data<T>& d) {
    flip_tile<T, 4><<<tiles(d.rows, d.columns), dim3(kTile, 8)>>>(d.in, d.out, d.rows, d.columns);
}
//: end

//: variant tile_128
// Rows and columns are multiples of 128.
__global__ void flip_bytes(const unsigned char* in, unsigned char* out, int rows, int columns) {
    __shared__ unsigned char tile[128 * 129];
    const int x = blockIdx.x * 128, y = blockIdx.y * 128, lane = threadIdx.x;
    for (int j = threadIdx.y; j < 128; j += 8) {
        const uchar4 v = reinterpret_cast<const uchar4*>(in + size_t(y + j) * columns + x)[lane];
        unsigned char* row = tile + j * 129 + 4 * lane;
        row[0] = v.x, row[1] = v.y, row[2] = v.z, row[3] = v.w;
    }
    __syncthreads();
    for (int j = threadIdx.y; j < 128; j += 8) {
        const unsigned char* column = tile + 4 * lane * 129 + j;
        const uchar4 v = make_uchar4(column[0], column[129], column[2 * 129], column[3 * 129]);
        reinterpret_cast<uchar4*>(out + size_t(x + j) * rows + y)[lane] = v;
    }
}

void tile_128(const Data<unsigned char>& d) {
    flip_bytes<<<dim3(d.columns / 128, d.rows / 128), dim3(32, 8)>>>(d.in, d.out, d.rows, d.columns);
}
//: end

template <class T>
__global__ void reference_flip(const T* in, T* expected, int rows, int columns) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < size_t(rows) * columns;
         i += size_t{gridDim.x} * blockDim.x) {
        expected[i] = in[(i % rows) * columns + i / rows];
    }
}

template <class T>
Data<T> set_up(book::Problem& p, int rows, int columns, double high) {
    Data<T> d{rows, columns};
    const size_t count = size_t(rows) * columns;
    d.in = p.uniform<T>(count, 0, high);
    d.out = p.output<T>(count);
    p.needs({.dram_bytes = 2.0 * sizeof(T) * count});
    p.check<T>(d.out, count, {0}, [=](T* expected) {
        reference_flip<<<1056, 256>>>(d.in, expected, rows, columns);
    });
    return d;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("f32", [](book::Problem& p) {
        const auto d = set_up<float>(p, 4096, 4096, 1);
        p.variant("rows_in", [=] { rows_in(d); });
        p.variant("rows_out", [=] { rows_out(d); });
        p.variant("tile_32", [=] { tile_32(d); });
        p.variant("tile_33", [=] { tile_33(d); });
        p.variant("tile_34", [=] { tile_34(d); });
        p.variant("tile_36", [=] { tile_36(d); });
    });
    book.problem("f64_flat", [](book::Problem& p) {
        const auto d = set_up<double>(p, 96, 87040, 1);
        p.variant("rows_in", [=] { rows_in(d); });
        p.variant("tile_32", [=] { tile_32(d); });
        p.variant("tile_33", [=] { tile_33(d); });
    });
    book.problem("u8", [](book::Problem& p) {
        const auto d = set_up<unsigned char>(p, 8192, 8192, 255);
        p.variant("tile_33", [=] { tile_33(d); });
        p.variant("tile_128", [=] { tile_128(d); });
    });
    return book.finish();
}
