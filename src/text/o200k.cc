#include "text/o200k.h"

#include "base/check.h"

namespace rose::o200k {

std::string special_name(int id) {
  switch (id) {
    case 199998: return "<|startoftext|>";
    case 199999: return "<|endoftext|>";
    case 200002: return "<|return|>";
    case 200003: return "<|constrain|>";
    case 200005: return "<|channel|>";
    case 200006: return "<|start|>";
    case 200007: return "<|end|>";
    case 200008: return "<|message|>";
    case 200012: return "<|call|>";
    default: return strf("<|reserved_%d|>", id);
  }
}

}  // namespace rose::o200k
