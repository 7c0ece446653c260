// A checkpoint on disk, seen by the names of the `original/` layout, whichever of the published
// layouts it has:
//
//   Hugging Face   model.safetensors.index.json and its shards, or one file; q, k and v apart;
//                  experts in MXFP4 (`_blocks`, `_scales`) or widened to bf16, [experts, in, out]
//   original/      every *.safetensors of the folder; qkv in one; experts in MXFP4
//
// Values stay in the mapped files until they are asked for.
#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/threads.h"
#include "model/config.h"
#include "model/weights.h"
#include "tensor/safetensors.h"

namespace rose {

class Checkpoint {
 public:
  // Maps the files of a model folder and reads their headers.
  static Result<Checkpoint> open(const std::string& folder, const ModelConfig& config);

  // The checkpoint must have exactly the tensors of the list, in exactly these shapes; the error names
  // the first that is missing, does not fit or is too many. From here on rows go by their index.
  Status bind(std::span<const WeightRow> rows);

  RawWeight::Kind kind(size_t row) const { return rows_[row].kind; }
  int64_t bytes(size_t row) const;    // in the files
  void expect(size_t row) const;      // it is read next
  void drop(size_t row, int expert);  // it was read, and will not be again

  // One matrix of a row, valid until the next call.
  Result<RawWeight> matrix(size_t row, int expert);

  // The values [first, first + into.size()) of a row.
  void values(size_t row, int64_t first, std::span<bf16> into, ThreadPool&) const;

 private:
  struct Stored {
    const Safetensors* file;
    const SafetensorsEntry* entry;
    bool bound = false;
  };
  struct Part {
    const MappedFile* file;
    std::span<const uint8_t> bytes;
  };
  struct Row {
    RawWeight::Kind kind = RawWeight::Kind::bf16;
    int experts = 1, rows = 1, columns = 1;
    std::vector<Part> parts;  // of mxfp4: codes, scales; else joined one after another
  };

  Status open_indexed(const std::string& folder, const std::string& index_path);
  Status open_all(const std::string& folder);
  Status add_file(const std::string& path);
  Result<Row> find(const WeightRow& row);
  Result<Part> take(const std::string& name, std::string_view dtype,
                    const std::vector<int64_t>& shape);
  std::vector<Part> parts_of(size_t row, int expert) const;

  ModelConfig config_;
  bool original_ = false;
  std::map<std::string, Safetensors> files_;  // by path
  std::map<std::string, Stored, std::less<>> tensors_;
  std::vector<Row> rows_;
  std::vector<uint8_t> joined_;
};

}  // namespace rose
