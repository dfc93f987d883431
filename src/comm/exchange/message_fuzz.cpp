// Hostile peers: whatever frames they send, the exchange answers with an error at most, in bounded
// memory; and whatever stands in a shared ring or in the bytes of a frame.
//
// Input: the first byte chooses. 0: the rest is a frame. 1: the rest is a ring, u16 tail / 8 first.
// Else: the rest is frames for the exchange, each after its size (u16), from a rank of 1 to 3.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/core/check.h"
#include "base/text/coding.h"
#include "comm/exchange/exchange.h"
#include "comm/transport/frame.h"
#include "comm/transport/ring.h"

namespace quire::comm {
namespace {

constexpr int kRanks = 4;
constexpr uint64_t kBufferedBytesMax = 64 << 20;

// Rank 0 of four, to which the others have sent what the input says.
class FuzzTransport final : public Transport {
 public:
  explicit FuzzTransport(std::deque<std::pair<int, std::string>> frames)
      : frames_(std::move(frames)) {}
  int rank() const override { return 0; }
  int size() const override { return kRanks; }
  bool SharesMemory(int) const override { return false; }
  uint32_t frame_bytes_max(int) const override { return kFrameBytesMax; }
  // Every other frame finds no room, so that answers queue.
  Result<bool> TrySend(int, const FrameParts&) override { return ++sent_ % 2 == 0; }
  int Poll(FrameSink& sink, int) override {
    for (int rank = 1; rank < kRanks; ++rank) sink.OnRoom(rank);
    if (frames_.empty()) return 0;
    const auto [source, frame] = std::move(frames_.front());
    frames_.pop_front();
    sink.OnFrame(source, frame);
    return 1;
  }
  void CallerArrives() override {}
  void CallerLeaves() override {}
  bool Wait(Waiter, uint64_t) override { return false; }
  void Wake(Waiter) override {}
  uint64_t spin_ns() const override { return 0; }
  bool Alive(int) override { return true; }
  io::Clock& clock() override { return io::RealClock(); }
  bool AllowsThreads() const override { return false; }
  ProgressGroup* progress_group() const override { return nullptr; }
  Status CheckThread() const override { return Status(); }
  std::string Name() const override { return "fuzz"; }

 private:
  std::deque<std::pair<int, std::string>> frames_;
  int sent_ = 0;
};

void FuzzFrame(Slice bytes) {
  const Result<FrameHeader> header = DecodeFrameHeader(bytes);
  if (!header.ok()) return;
  QUIRE_CHECK(header->size == bytes.size() - kFrameHeaderBytes);
  (void)VerifyFrame({1, 0}, *header, bytes);
}

void FuzzRing(Slice bytes) {
  constexpr uint64_t kRingBytes = 1024;
  base::ByteReader reader(bytes);
  uint16_t tail = 0;
  if (!reader.Fixed(&tail)) return;
  std::vector<char> data(kRingBytes);
  const Slice rest = reader.rest().substr(0, kRingBytes);
  std::copy(rest.begin(), rest.end(), data.begin());
  auto control = std::make_unique<RingControl>();
  control->tail.store(uint64_t{tail} * 8);
  RingReader ring(control.get(), data.data(), kRingBytes);
  for (uint64_t i = 0; i < kRingBytes; ++i) {
    const Result<Slice> record = ring.Front();
    if (!record.ok() || record->data() == nullptr) return;
    QUIRE_CHECK(record->data() >= data.data());
    QUIRE_CHECK(record->data() + record->size() <= data.data() + kRingBytes);
    ring.Pop();
  }
}

void FuzzExchange(Slice bytes) {
  std::deque<std::pair<int, std::string>> frames;
  base::ByteReader reader(bytes);
  uint16_t size = 0;
  while (reader.Fixed(&size)) {
    Slice frame;
    if (!reader.Bytes(std::min<uint64_t>(size & 0x3FFF, reader.rest().size()), &frame)) break;
    frames.emplace_back(1 + (size >> 14) % (kRanks - 1), std::string(frame));
  }
  const size_t frame_count = frames.size();
  ExchangeOptions options;
  options.timeout_ms = 0;
  options.handler_thread = false;
  const auto exchange =
      Exchange::Create(std::make_unique<FuzzTransport>(std::move(frames)), options);
  exchange->Serve(1, [](int, Slice request, std::string* answer) {
    answer->assign(request);
    return request.empty() ? Status(Code::kNotFound) : Status();
  });
  (void)exchange->Start(1, 1, "x", {});
  (void)exchange->Barrier();
  (void)exchange->AllGather("x");
  (void)exchange->WaitSignal(1, {1, 2, 3});
  for (size_t i = 0; i <= frame_count; ++i) exchange->Progress();
  QUIRE_CHECK(exchange->Statistics().buffered_bytes <= kBufferedBytesMax);
}

}  // namespace
}  // namespace quire::comm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const quire::Slice rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0]) {
    case 0:
      quire::comm::FuzzFrame(rest);
      break;
    case 1:
      quire::comm::FuzzRing(rest);
      break;
    default:
      quire::comm::FuzzExchange(rest);
  }
  return 0;
}
