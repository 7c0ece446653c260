#include "cli/census.h"

#include <cstdio>

#include "base/check.h"
#include "base/json.h"

namespace rose {

namespace {

Census sum_of(const LoadedModel& loaded) {
  Census sum;
  for (const Census& tensor : loaded.census) {
    sum.blocks += tensor.blocks;
    sum.inexact += tensor.inexact;
  }
  return sum;
}

std::string share(const Census& census) {
  return strf("%ld of %ld MXFP4 blocks (%.2g %%) lose bits", long(census.inexact),
              long(census.blocks), 100 * double(census.inexact) / double(census.blocks));
}

}  // namespace

void print_census(const LoadedModel& loaded, bool each) {
  const Format format = loaded.recipe->expert;
  const Census sum = sum_of(loaded);
  if (sum.blocks == 0 || (format != Format::mxfp4_fp8 && format != Format::fp8_block)) return;
  std::fprintf(stderr, "experts    as %s: %s\n", name_of(format),
               sum.inexact == 0
                   ? strf("none of %ld MXFP4 blocks loses bits", long(sum.blocks)).c_str()
                   : share(sum).c_str());
  if (!each) return;
  for (const Census& tensor : loaded.census)
    std::fprintf(stderr, "           %s: %s\n", tensor.name.c_str(), share(tensor).c_str());
}

Json census_json(const LoadedModel& loaded) {
  const Census sum = sum_of(loaded);
  Json tensors = Json::array();
  for (const Census& tensor : loaded.census)
    if (tensor.inexact > 0)
      tensors.push_back(
          {{"name", tensor.name}, {"blocks", tensor.blocks}, {"inexact", tensor.inexact}});
  return {{"blocks", sum.blocks}, {"inexact", sum.inexact}, {"tensors", tensors}};
}

}  // namespace rose
