// Cuts text into the pieces that are encoded one by one, by a regular expression that comes with the
// vocabulary.
//
// The pieces joined are the text, whatever it is:
// - what lies between two matches is a piece of its own;
// - bytes that are no UTF-8 form pieces of their own (each run of them one piece), and what lies
//   before and after is split as if it were a text by itself;
// - if matching gives up (its limits are set high, so this takes a hostile pattern), the rest up to
//   the end or to such bytes is one piece.
#pragma once
#include <memory>
#include <string_view>

#include "base/result.h"

namespace rose {

class Splitter {
 public:
  // Perl syntax, Unicode classes; \s is Unicode's White_Space.
  static Result<Splitter> compile(std::string_view pattern);

  Splitter(Splitter&&) noexcept;
  Splitter& operator=(Splitter&&) noexcept;
  ~Splitter();

  // Walks the pieces of one text. Both the splitter and the text must outlive it.
  class Pieces {
   public:
    Pieces(const Splitter& splitter, std::string_view text);
    ~Pieces();
    Pieces(const Pieces&) = delete;
    Pieces& operator=(const Pieces&) = delete;

    std::string_view next();  // empty: there are no more

   private:
    bool match();

    struct Scratch;
    const Splitter& splitter_;
    std::unique_ptr<Scratch> scratch_;
    std::string_view rest_;                   // behind the stretch
    std::string_view stretch_;                // valid UTF-8 that is being split
    size_t at_ = 0;                           // in the stretch: all before is done
    size_t match_begin_ = 0, match_end_ = 0;  // in the stretch: the match at or behind `at_`
  };

 private:
  struct Code;
  explicit Splitter(std::unique_ptr<Code> code);
  std::unique_ptr<Code> code_;
};

}  // namespace rose
