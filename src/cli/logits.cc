// rose logits: the logits that a model gives a text's tokens, as a NumPy file: for comparing it with other
// implementations.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>

#include "base/check.h"
#include "cli/command.h"
#include "cli/session.h"
#include "engine/teacher.h"

namespace rose {

namespace {

struct LogitsOptions {
  ModelOptions model;
  std::string input = "-";
  std::string output;
  int last = 0;

  template <class Visit>
  void each(Visit&& visit) {
    model.each(visit);
    visit("--input", input,
          "a file of token ids, with spaces or commas between; - reads standard input");
    visit("--output,-o", output,
          "the .npy file: float32 [rows, vocab]; row i predicts token i + 1");
    visit("--last", last, "rows of the last tokens only; 0: all");
  }
};

Result<std::vector<int>> read_ids(const std::string& path, int vocab) {
  std::ifstream file;
  if (path != "-") {
    file.open(path);
    if (!file) return fail(ErrorKind::not_found, "cannot read " + path);
  }
  std::istream& in = path == "-" ? std::cin : file;
  std::string text{std::istreambuf_iterator<char>(in), {}};
  std::vector<int> ids;
  const char* at = text.c_str();
  for (;;) {
    at += std::strspn(at, " ,\t\r\n[]");
    if (*at == 0) break;
    char* end = nullptr;
    const long id = std::strtol(at, &end, 10);
    if (end == at || id < 0 || id >= vocab)
      return fail(ErrorKind::invalid,
                  strf("%s: '%.20s', wanted token ids below %d", path.c_str(), at, vocab));
    ids.push_back(int(id));
    at = end;
  }
  if (ids.empty()) return fail(ErrorKind::invalid, path + ": no token ids");
  return ids;
}

// NumPy's format, version 1.0: magic, the header's length, the header padded to 64 bytes, the numbers.
std::string npy_header(int rows, int columns) {
  std::string text =
      strf("{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }", rows, columns);
  text.resize((10 + text.size() + 1 + 63) / 64 * 64 - 11, ' ');
  text += '\n';
  return std::string("\x93NUMPY\x01\x00", 8) + char(text.size() & 255) + char(text.size() >> 8) +
         text;
}

}  // namespace

Status logits_command(Arguments arguments) {
  LogitsOptions options;
  const CommandHelp help = {
      "logits", "The logits of a text's tokens, as a NumPy file.",
      "  rose logits models/demo --input ids.txt --output logits.npy --recipe f32\n"
      "  echo 1,2,3 | rose logits models/demo --last 1 --output logits.npy\n"};
  if (TRY(parse_options(help, options, arguments)) == Parsed::help) return Done{};
  if (options.output.empty()) return fail(ErrorKind::usage, "--output: no file named");
  if (options.last < 0)
    return fail(ErrorKind::usage, strf("--last: %d, wanted 0 or more", options.last));

  const std::unique_ptr<Runtime> runtime = TRY(open_runtime(options.model));
  const int vocab = runtime->config().vocab;
  const std::vector<int> ids = TRY(read_ids(options.input, vocab));
  if (int(ids.size()) > runtime->config().max_context)
    return fail(ErrorKind::invalid,
                strf("%zu tokens, wanted at most %d", ids.size(), runtime->config().max_context));
  Teacher teacher = TRY(Teacher::make(runtime->loaded, runtime->stream, int(ids.size()),
                                      step_tokens(options.model, *runtime->loaded.ops)));

  const int rows = options.last == 0 ? int(ids.size()) : std::min(options.last, int(ids.size()));
  std::ofstream file(options.output, std::ios::binary);
  file << npy_header(rows, vocab);
  teacher.begin(ids, int(ids.size()) - rows);
  for (TaughtRows found = teacher.next(); found.count > 0; found = teacher.next())
    file.write(reinterpret_cast<const char*>(found.logits), int64_t(found.count) * vocab * 4);
  file.flush();
  if (!file) return fail(ErrorKind::io, "writing " + options.output + " failed");
  std::printf("%d rows of %d logits in %s\n", rows, vocab, options.output.c_str());
  return Done{};
}

}  // namespace rose
