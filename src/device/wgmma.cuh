// WGMMA: one warpgroup (128 threads) multiplies 64 rows of A by kTokens columns of B.
//
//   D[64, N] (+)= A[64, K] x B[K, N]      K = 32 for E4M3, 16 for bf16; fp32 accumulator
//
// Fragments, for thread t of the warpgroup: g = (t % 32) / 4, c = t % 4, r0 = 16 (t / 32) + g:
//   D   d[4 i + 0, 1] = row r0,     columns 8 i + 2 c + (0, 1)
//       d[4 i + 2, 3] = row r0 + 8, the same columns
//   A   E4M3: a[0] = row r0, k 4c..4c+3;  a[1] = row r0 + 8, the same;  a[2], a[3] = k + 16
//       bf16: a[0] = row r0, k 2c, 2c+1;  a[1] = row r0 + 8, the same;  a[2], a[3] = k + 8
//   B   always in shared memory, [N][K] with K contiguous, given by a descriptor
//
// The text below is long because an instruction names each of its registers.
#pragma once
#include <cstdint>

namespace rose::cuda {

// A K-major operand in shared memory, rows of `kRowBytes` (64 or 128) swizzled over as many
// bytes: 16-byte chunk j of row r lies at chunk j ^ (r % 8) (128) or j ^ (r / 2 % 4) (64).
// Atoms of 8 rows follow each other. To step along K add bytes to the address.
template <int kRowBytes>
__device__ inline uint64_t operand(uint32_t address) {
  constexpr uint64_t kSwizzle = kRowBytes == 128 ? 1 : 2;
  constexpr uint64_t kAtom = 8 * kRowBytes;
  return kSwizzle << 62 | (kAtom >> 4) << 32 | (address >> 4 & 0x3fff);
}

// The registers of an accumulator or of A may be touched again only after wgmma_wait.
__device__ inline void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Returns when at most kPending committed groups still run.
template <int kPending>
__device__ inline void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// After the wait: the tensor core has read the registers of A only by now. Without this use of them the compiler takes
// them to be free as soon as the product is issued, and puts other things there (C7513).
template <int kRegisters>
__device__ __forceinline__ void wgmma_keep(const uint32_t (&a)[kRegisters]) {
#pragma unroll
  for (int i = 0; i < kRegisters; ++i) asm volatile("" ::"r"(a[i]));
}

template <int kTokens>
struct Wgmma;

// clang-format off
#define REGISTERS_4 \
  "%0,%1,%2,%3"
#define REGISTERS_8 REGISTERS_4 \
  ",%4,%5,%6,%7"
#define REGISTERS_16 REGISTERS_8 \
  ",%8,%9,%10,%11,%12,%13,%14,%15"
#define REGISTERS_32 REGISTERS_16 \
  ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define REGISTERS_48 REGISTERS_32 \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define REGISTERS_64 REGISTERS_48 \
  ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define REGISTERS_80 REGISTERS_64 \
  ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"
#define REGISTERS_96 REGISTERS_80 \
  ",%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define REGISTERS_128 REGISTERS_96 \
  ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111" \
  ",%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"

#define OUTPUTS_4 \
  "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
#define OUTPUTS_8 OUTPUTS_4, \
  "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
#define OUTPUTS_16 OUTPUTS_8, \
  "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), \
  "+f"(d[14]), "+f"(d[15])
#define OUTPUTS_32 OUTPUTS_16, \
  "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), \
  "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), \
  "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define OUTPUTS_48 OUTPUTS_32, \
  "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), \
  "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), \
  "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
#define OUTPUTS_64 OUTPUTS_48, \
  "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), \
  "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), \
  "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
#define OUTPUTS_80 OUTPUTS_64, \
  "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), \
  "+f"(d[70]), "+f"(d[71]), "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), \
  "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79])
#define OUTPUTS_96 OUTPUTS_80, \
  "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), \
  "+f"(d[86]), "+f"(d[87]), "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), \
  "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
#define OUTPUTS_128 OUTPUTS_96, \
  "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), \
  "+f"(d[102]), "+f"(d[103]), "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), \
  "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]), "+f"(d[112]), "+f"(d[113]), \
  "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]), \
  "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), \
  "+f"(d[126]), "+f"(d[127])

#define DEFINE_WGMMA(N, D, A0, A1, A2, A3, B, P)                                             \
  template <> struct Wgmma<N> {                                                              \
    /* A in registers, E4M3 */                                                               \
    static __device__ __forceinline__ void e4m3(float (&d)[D], const uint32_t* a, uint64_t b, bool add) { \
      asm volatile("{.reg .pred p; setp.ne.b32 p, %" #P ", 0;"                                \
          "wgmma.mma_async.sync.aligned.m64n" #N "k32.f32.e4m3.e4m3 {" REGISTERS_##D "},"    \
          "{%" #A0 ",%" #A1 ",%" #A2 ",%" #A3 "},%" #B ",p,1,1;}"                            \
          : OUTPUTS_##D : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int(add))); \
    }                                                                                        \
    /* A in registers, bf16 */                                                               \
    static __device__ __forceinline__ void bf16(float (&d)[D], const uint32_t* a, uint64_t b, bool add) { \
      asm volatile("{.reg .pred p; setp.ne.b32 p, %" #P ", 0;"                                \
          "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.bf16.bf16 {" REGISTERS_##D "},"    \
          "{%" #A0 ",%" #A1 ",%" #A2 ",%" #A3 "},%" #B ",p,1,1,0;}"                          \
          : OUTPUTS_##D : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int(add))); \
    }                                                                                        \
    /* A in registers, f16 */                                                                \
    static __device__ __forceinline__ void f16(float (&d)[D], const uint32_t* a, uint64_t b, bool add) { \
      asm volatile("{.reg .pred p; setp.ne.b32 p, %" #P ", 0;"                                \
          "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.f16.f16 {" REGISTERS_##D "},"      \
          "{%" #A0 ",%" #A1 ",%" #A2 ",%" #A3 "},%" #B ",p,1,1,0;}"                          \
          : OUTPUTS_##D : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int(add))); \
    }                                                                                        \
    /* A in shared memory, bf16 */                                                           \
    static __device__ __forceinline__ void bf16_shared(float (&d)[D], uint64_t a, uint64_t b, bool add) { \
      asm volatile("{.reg .pred p; setp.ne.b32 p, %" #A2 ", 0;"                               \
          "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.bf16.bf16 {" REGISTERS_##D "},"    \
          "%" #A0 ",%" #A1 ",p,1,1,0,0;}"                                                    \
          : OUTPUTS_##D : "l"(a), "l"(b), "r"(int(add)));                                    \
    }                                                                                        \
    /* A in shared memory, E4M3 */                                                           \
    static __device__ __forceinline__ void e4m3_shared(float (&d)[D], uint64_t a, uint64_t b, bool add) { \
      asm volatile("{.reg .pred p; setp.ne.b32 p, %" #A2 ", 0;"                               \
          "wgmma.mma_async.sync.aligned.m64n" #N "k32.f32.e4m3.e4m3 {" REGISTERS_##D "},"    \
          "%" #A0 ",%" #A1 ",p,1,1;}"                                                        \
          : OUTPUTS_##D : "l"(a), "l"(b), "r"(int(add)));                                    \
    }                                                                                        \
  };

DEFINE_WGMMA(8, 4, 4, 5, 6, 7, 8, 9)
DEFINE_WGMMA(16, 8, 8, 9, 10, 11, 12, 13)
DEFINE_WGMMA(32, 16, 16, 17, 18, 19, 20, 21)
DEFINE_WGMMA(64, 32, 32, 33, 34, 35, 36, 37)
DEFINE_WGMMA(128, 64, 64, 65, 66, 67, 68, 69)

#undef DEFINE_WGMMA
// clang-format on

}  // namespace rose::cuda
