// gpt-oss: a pre-norm transformer whose blocks are attention (sliding and full layers in turn, a sink a
// head) and a mixture of experts.
#include "device/buffer.h"
#include "kernels/decode/decode.h"
#include "kernels/gather/gather.h"
#include "layers/attention.h"
#include "layers/embedding.h"
#include "layers/linear.h"
#include "layers/moe.h"
#include "layers/norm.h"
#include "layers/yarn.h"
#include "model/families.h"

namespace rose {

namespace {

struct Block {
  Norm attention_norm;
  Attention attention;
  Norm moe_norm;
  Moe moe;
};

class GptOss final : public Model {
 public:
  explicit GptOss(const ModelConfig& config) : c_(config), blocks_(size_t(config.layers)) {
    for (int layer = 0; layer < c_.layers; ++layer) {
      Block& block = blocks_[size_t(layer)];
      block.attention_norm.eps = block.moe_norm.eps = c_.rms_eps;
      block.attention.layer = layer;
      block.attention.window = sliding(layer) ? c_.window : kEveryKey;
      block.attention.heads = c_.heads;
      block.attention.head_dim = c_.head_dim;
      block.moe.top_k = c_.top_k;
      block.moe.limit = c_.swiglu_limit;
    }
    final_norm_.eps = c_.rms_eps;
  }

  const ModelConfig& config() const override { return c_; }

  Tensor forward(Pass& pass) const override {
    const Tensor x = embedding_(pass);  // [tokens, hidden], the residual stream
    const Terms experts = blocks_.front().moe.room(pass, x.dims[0]);
    if (!decode_at_once(pass, x, experts)) layer_by_layer(pass, x, experts);
    const Tensor last = final_norm_(pass, x, experts);
    pass.saw(last);
    return unembedding_(pass, sampled_rows(pass, last), DType::f32);  // [samples, vocab]
  }

  std::vector<WeightRow> weights() override {
    const int64_t h = c_.hidden, e = c_.experts, f = c_.ffn;
    const int64_t q = int64_t(c_.heads) * c_.head_dim;
    const int64_t qkv = q + int64_t(c_.kv_heads) * c_.head_dim * 2;
    const auto f32 = [](Tensor& into) { return PlainWeight{&into, DType::f32}; };
    const auto bf16 = [](Tensor& into) { return PlainWeight{&into, DType::bf16}; };

    std::vector<WeightRow> rows = {{bf16(embedding_.table), "embedding.weight", {c_.vocab, h}}};
    for (int layer = 0; layer < c_.layers; ++layer) {
      const std::string at = strf("block.%d.", layer);
      auto& [norm1, attn, norm2, moe] = blocks_[size_t(layer)];
      const WeightRow block[] = {
          {f32(norm1.gain), at + "attn.norm.scale", {h}},
          {PackedWeight{&attn.qkv.weight, Role::attention}, at + "attn.qkv.weight", {qkv, h}},
          {f32(attn.qkv.bias), at + "attn.qkv.bias", {qkv}},
          {f32(attn.sinks), at + "attn.sinks", {c_.heads}},
          {PackedWeight{&attn.out.weight, Role::attention}, at + "attn.out.weight", {h, q}},
          {f32(attn.out.bias), at + "attn.out.bias", {h}},
          {f32(norm2.gain), at + "mlp.norm.scale", {h}},
          {bf16(moe.router), at + "mlp.gate.weight", {e, h}},
          {f32(moe.router_bias), at + "mlp.gate.bias", {e}},
          {PackedWeight{&moe.gate_up, Role::expert}, at + "mlp.mlp1_weight", {e, 2 * f, h}},
          {f32(moe.gate_up_bias), at + "mlp.mlp1_bias", {e, 2 * f}},
          {PackedWeight{&moe.down, Role::expert}, at + "mlp.mlp2_weight", {e, h, f}},
          {f32(moe.down_bias), at + "mlp.mlp2_bias", {e, h}},
      };
      rows.insert(rows.end(), std::begin(block), std::end(block));
    }
    rows.push_back({f32(final_norm_.gain), "norm.scale", {h}});
    rows.push_back({PackedWeight{&unembedding_.weight, Role::unembedding},
                    "unembedding.weight",
                    {c_.vocab, h}});
    return rows;
  }

  Status prepare(Stream& stream) override {
    const Yarn yarn = {.theta = c_.rope_theta,
                       .factor = c_.rope_factor,
                       .beta_fast = c_.rope_beta_fast,
                       .beta_slow = c_.rope_beta_slow,
                       .original_context = c_.rope_original_context,
                       .truncate = c_.rope_truncate};
    const std::vector<float> frequency = yarn_inverse_frequency(yarn, c_.head_dim);
    const int64_t bytes = int64_t(frequency.size() * sizeof(float));
    tables_ = TRY(Buffer::allocate(*stream.device, bytes));
    stream.device->upload(stream, tables_.data(), frequency.data(), bytes);
    stream.device->synchronize(stream);
    for (Block& block : blocks_)
      block.attention.rope = {Tensor(tables_.data(), DType::f32, {c_.head_dim / 2}),
                              yarn_concentration(yarn)};
    return Done{};
  }

  KvSpec kv_spec(DType dtype) const override {
    KvSpec spec;
    spec.kv_heads = c_.kv_heads;
    spec.head_dim = c_.head_dim;
    spec.window = c_.window;
    spec.dtype = dtype;
    for (int layer = 0; layer < c_.layers; ++layer)
      spec.layers.push_back({sliding(layer) ? Pool::sliding : Pool::full});
    return spec;
  }

 private:
  bool sliding(int layer) const { return c_.sliding_layer[size_t(layer)]; }

  // x becomes the residual stream, less what the last layer's experts want added.
  void layer_by_layer(Pass& pass, Tensor x, const Terms& experts) const {
    Terms delta;  // what the layer before wants added to x
    const Arena::Mark layer = pass.stream.scratch->mark();
    for (const Block& block : blocks_) {
      // What the block before has taken is given back: what follows on the stream runs after it.
      if (!pass.keep) pass.stream.scratch->rewind(layer);
      const Tensor in = block.attention_norm(pass, x, delta);
      pass.saw(x);
      block.attention(pass, in, x);
      block.moe(pass, block.moe_norm, x, experts);
      delta = experts;
    }
  }

  // The same in one launch, where the backend can. Nobody can watch what is between the layers then.
  bool decode_at_once(Pass& pass, Tensor x, const Terms& experts) const {
    if (!pass.ops.decode || pass.watch || pass.batch.tokens != 1) return false;
    const Attention& attention = blocks_.front().attention;
    std::vector<DecodeLayer> layers;
    for (const Block& b : blocks_)
      layers.push_back({.attention_gain = b.attention_norm.gain,
                        .qkv = b.attention.qkv.weight,
                        .qkv_bias = b.attention.qkv.bias,
                        .sinks = b.attention.sinks,
                        .out = b.attention.out.weight,
                        .out_bias = b.attention.out.bias,
                        .kv = pass.kv.layer(b.attention.layer),
                        .window = b.attention.window,
                        .moe_gain = b.moe_norm.gain,
                        .router = b.moe.router,
                        .router_bias = b.moe.router_bias,
                        .gate_up = b.moe.gate_up,
                        .gate_up_bias = b.moe.gate_up_bias,
                        .down = b.moe.down,
                        .down_bias = b.moe.down_bias});
    return pass.ops.decode(pass.stream, {.x = x,
                                         .expert_rows = experts.rows,
                                         .expert_weights = experts.weights,
                                         .layers = layers,
                                         .batch = &pass.batch,
                                         .heads = attention.heads,
                                         .head_dim = attention.head_dim,
                                         .scale = attention.scale(),
                                         .rope = attention.rope,
                                         .eps = c_.rms_eps,
                                         .limit = c_.swiglu_limit});
  }

  static Tensor sampled_rows(Pass& pass, Tensor x) {
    if (pass.batch.sampled.dims[0] == x.dims[0]) return x;  // decoding: all of them
    Tensor y = pass.take({pass.batch.sampled.dims[0], x.dims[1]});
    pass.ops.gather(pass.stream, {.y = y, .x = x, .rows = pass.batch.sampled});
    return y;
  }

  ModelConfig c_;
  Embedding embedding_;
  std::vector<Block> blocks_;
  Norm final_norm_;
  Linear unembedding_;
  Buffer tables_;  // what the blocks' rope points into
};

}  // namespace

Result<std::unique_ptr<Model>> make_gpt_oss(const ModelConfig& config) {
  return std::make_unique<GptOss>(config);
}

}  // namespace rose
