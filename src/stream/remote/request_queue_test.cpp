#include "stream/remote/request_queue.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <semaphore>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/core/random.h"
#include "io/files/machine.h"
#include "io/ipc/poller.h"
#include "io/ipc/sealed_memory.h"
#include "io/ipc/socket.h"
#include "stream/remote/daemon_client.h"
#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"
#include "tests/support/test_scale.h"

namespace quire::stream::request_queue_test {
namespace {

constexpr uint64_t kMs = 1'000'000;

uint64_t In(uint64_t ns) {
  return io::RealClock().NowNs() + ns;
}

// A daemon's side and a reader's side of the same memory.
class RequestQueue : public ::testing::Test {
 protected:
  void SetUp() override {
    auto server = QueueServer::New();
    ASSERT_OK(server.status());
    server_ = std::move(*server);
    auto memory =
        io::SealedMemory::Map(io::FileDescriptor(::dup(server_->fd())), sizeof(QueueLayout));
    ASSERT_OK(memory.status());
    layout_ = reinterpret_cast<QueueLayout*>((*memory)->data());
    client_ = std::make_unique<QueueClient>(
        std::move(*memory),
        [this] {
          if (!rings_) return Status(Code::kIo, "the bell does not ring");
          if (on_ring_) on_ring_();
          bell_.release();
          return Status();
        },
        [this] { return gone_.load(); });
  }

  // Waits for one ring of the bell, and takes the requests that it announces.
  std::vector<QueueServer::Asked> TakeNext() {
    bell_.acquire();
    return server_->Take();
  }

  // Writes what a broken other side may write: any values, often nearly right ones.
  void DamageSlot(base::Random* random) {
    QueueSlot& slot = layout_->slots[random->Below(kQueueSlots)];
    const uint32_t sizes[] = {0, 1, kPartRequestBytesMax, kAnswerBytesMax, UINT32_MAX};
    const auto size = [&] {
      const uint64_t which = random->Below(10);
      return which < 5 ? sizes[which] + static_cast<uint32_t>(random->Below(3)) - 1
                       : static_cast<uint32_t>(random->Next());
    };
    switch (random->Below(7)) {
      case 0:
        slot.request_bytes = size();
        break;
      case 1:
        slot.answer_bytes = size();
        break;
      case 2:
        slot.deadline_ns = random->Next();
        break;
      case 3:
        slot.request[random->Below(16)] = static_cast<char>(random->Next());
        slot.answer[random->Below(16)] = static_cast<char>(random->Next());
        break;
      case 4:
        slot.arrival_at = random->Next();
        slot.arrival_bytes = random->Below(3);
        slot.arrived = random->Below(3);
        break;
      default:
        slot.state = static_cast<uint32_t>(random->OneIn(8) ? random->Next() : random->Below(5));
    }
  }
  void FreeAll() {
    for (QueueSlot& slot : layout_->slots) slot.state = static_cast<uint32_t>(SlotState::kFree);
  }
  void ExpectThatItWorks() {
    FreeAll();
    on_ring_ = [this] {
      for (const auto& asked : server_->Take()) {
        server_->Answer(asked.slot, EncodeAnswer(Status(), "to " + asked.request));
      }
    };
    for (uint32_t i = 0; i < 2 * kQueueSlots; ++i) {
      const auto answer = client_->Call("x", In(20'000 * kMs));
      ASSERT_OK(answer.status());
      EXPECT_EQ(*answer, "to x");
    }
  }

  std::function<void()> on_ring_;
  std::unique_ptr<QueueServer> server_;
  std::unique_ptr<QueueClient> client_;
  QueueLayout* layout_ = nullptr;
  std::counting_semaphore<> bell_{0};
  std::atomic<bool> gone_{false};
  bool rings_ = true;
};

TEST_F(RequestQueue, ABellThatDoesNotRingLosesNoSlot) {
  rings_ = false;
  for (uint32_t i = 0; i < 3 * kQueueSlots; ++i) {
    EXPECT_CODE(client_->Call("lost", In(100 * kMs)).status(), Code::kIo);
  }
  rings_ = true;
  std::thread daemon([this] {
    for (const auto& asked : TakeNext()) server_->Answer(asked.slot, EncodeAnswer(Status(), "yes"));
  });
  const Result<std::string> answer = client_->Call("heard", In(60'000 * kMs));
  daemon.join();
  ASSERT_OK(answer.status());
  EXPECT_EQ(*answer, "yes");
}

TEST_F(RequestQueue, RefusesARequestThatHasNoRoomInASlot) {
  const std::string large(kPartRequestBytesMax + 1, 'x');
  for (uint32_t i = 0; i < 2 * kQueueSlots; ++i) {
    EXPECT_CODE(client_->Call(large, In(100 * kMs)).status(), Code::kInvalidArgument);
  }
  ExpectThatItWorks();
}

TEST_F(RequestQueue, AnswersEveryOneWhatItAsked) {
  constexpr int kThreads = 3 * kQueueSlots;  // more than slots
  std::vector<std::thread> readers;
  for (int i = 0; i < kThreads; ++i) {
    readers.emplace_back([this, i] {
      const std::string text = "request " + std::to_string(i);
      auto answer = client_->Call(text, In(20'000 * kMs));
      EXPECT_OK(answer.status());
      EXPECT_EQ(answer.ok() ? *answer : "", "to " + text);
    });
  }
  for (int served = 0; served < kThreads;) {
    for (const auto& asked : TakeNext()) {
      server_->Answer(asked.slot, EncodeAnswer(Status(), "to " + asked.request));
      ++served;
    }
  }
  for (std::thread& reader : readers) reader.join();
}

TEST_F(RequestQueue, WaitsNoLongerThanTheDeadlineAndFreesTheSlot) {
  for (uint32_t i = 0; i < 3 * kQueueSlots; ++i) {
    EXPECT_EQ(client_->Call("x", In(kMs)).status().code(), Code::kTimedOut);
  }
  EXPECT_TRUE(server_->Take().empty()) << "nobody waits for an answer";
}

TEST_F(RequestQueue, FreesASlotThatWasAbandonedOnceItIsAnswered) {
  std::thread reader(
      [this] { EXPECT_EQ(client_->Call("x", In(50 * kMs)).status().code(), Code::kTimedOut); });
  const auto asked = TakeNext();
  ASSERT_EQ(asked.size(), 1u);
  reader.join();
  EXPECT_EQ(layout_->slots[asked[0].slot].state.load(),
            static_cast<uint32_t>(SlotState::kAbandoned));
  server_->Answer(asked[0].slot, EncodeAnswer(Status(), "late"));
  EXPECT_EQ(layout_->slots[asked[0].slot].state.load(), static_cast<uint32_t>(SlotState::kFree));
}

TEST_F(RequestQueue, AReaderThatWaitsSeesWhatHasArrivedSoFar) {
  constexpr uint64_t kBytes = 5;
  std::vector<uint64_t> heard;
  std::counting_semaphore<> hears{0};
  std::thread reader([&] {
    const auto answer = client_->Call("x", In(60'000 * kMs), [&](const Arrival& arrival) {
      EXPECT_EQ(arrival.at, 7u);
      EXPECT_EQ(arrival.bytes, kBytes);
      heard.push_back(arrival.arrived);
      hears.release();
    });
    EXPECT_OK(answer.status());
  });
  for (const auto& asked : TakeNext()) {
    for (uint64_t arrived = 0; arrived < kBytes; ++arrived) {
      server_->Tell(asked.slot, {7, kBytes, arrived});
      hears.acquire();
    }
    server_->Answer(asked.slot, EncodeAnswer(Status(), "whole"));
  }
  reader.join();
  EXPECT_EQ(heard, (std::vector<uint64_t>{0, 1, 2, 3, 4}));
  // The next request in the same slot receives no news of it.
  std::thread daemon([this] {
    for (const auto& asked : TakeNext()) server_->Answer(asked.slot, EncodeAnswer(Status(), ""));
  });
  EXPECT_OK(client_->Call("x", In(60'000 * kMs), [](const Arrival&) { ADD_FAILURE(); }).status());
  daemon.join();
}

TEST_F(RequestQueue, WaitsNoLongerThanTheDeadlineWhereMoreComesWithoutEnd) {
  std::vector<QueueServer::Asked> asked;
  on_ring_ = [&] { asked = server_->Take(); };
  std::atomic<bool> ended{false};
  std::thread daemon([&] {
    bell_.acquire();
    for (uint64_t arrived = 0; !ended; ++arrived) {
      server_->Tell(asked[0].slot, {0, UINT64_MAX, arrived});
    }
    server_->Answer(asked[0].slot, EncodeAnswer(Status(), "late"));
  });
  EXPECT_CODE(client_->Call("x", In(20 * kMs), [](const Arrival&) {}).status(), Code::kTimedOut);
  ended = true;
  daemon.join();
}

TEST_F(RequestQueue, ACallFailsOnceTheDaemonHasGone) {
  std::thread reader([this] {
    EXPECT_EQ(client_->Call("x", In(60'000 * kMs)).status().code(), Code::kPeerFailed);
  });
  ASSERT_EQ(TakeNext().size(), 1u);
  gone_ = true;
  reader.join();
}

TEST_F(RequestQueue, BelievesNoLengthThatIsWrittenIntoTheMemory) {
  QueueSlot& slot = layout_->slots[2];
  slot.request_bytes = 0xffffffff;
  slot.state = static_cast<uint32_t>(SlotState::kAsked);
  auto asked = server_->Take();
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].request.size(), kPartRequestBytesMax);
  slot.state = static_cast<uint32_t>(SlotState::kAsked);
  EXPECT_TRUE(server_->Take().empty()) << "it works for the slot already";

  std::thread reader([this] {
    EXPECT_EQ(client_->Call("x", In(20'000 * kMs)).status().code(), Code::kCorruption);
  });
  auto next = TakeNext();
  ASSERT_EQ(next.size(), 1u);
  layout_->slots[next[0].slot].answer_bytes = kAnswerBytesMax + 1;
  layout_->slots[next[0].slot].state = static_cast<uint32_t>(SlotState::kAnswered);
  reader.join();
}

TEST_F(RequestQueue, ServesEachSlotOnceWhateverAReaderWrites) {
  base::Random random(7);
  std::set<uint32_t> working;
  const int64_t rounds = test::ScaledCount(200'000);
  uint64_t taken = 0;
  for (int64_t i = 0; i < rounds; ++i) {
    DamageSlot(&random);
    if (random.OneIn(3)) {
      for (const auto& asked : server_->Take()) {
        ++taken;
        ASSERT_LT(asked.slot, kQueueSlots);
        ASSERT_TRUE(working.insert(asked.slot).second) << "it works for the slot already";
        ASSERT_LE(asked.request.size(), kPartRequestBytesMax);
        (void)DecodeRequest(asked.request).ok();
      }
    }
    if (!working.empty() && random.OneIn(4)) {
      server_->Answer(*working.begin(), std::string(random.Below(100), 'a'));
      working.erase(working.begin());
    }
  }
  EXPECT_GT(taken, static_cast<uint64_t>(rounds) / 100);
  for (const uint32_t slot : working) server_->Answer(slot, "late");
  ExpectThatItWorks();
}

TEST_F(RequestQueue, BringsAReaderToAnEndWhateverADaemonWrites) {
  base::Random random(8);
  const int64_t rounds = test::ScaledCount(5000);
  int64_t answered = 0;
  int64_t told = 0;
  for (int64_t i = 0; i < rounds; ++i) {
    on_ring_ = [&] {
      for (uint64_t n = random.Below(30); n > 0; --n) DamageSlot(&random);
      if (random.OneIn(2)) {
        for (const auto& asked : server_->Take()) {
          server_->Answer(asked.slot, EncodeAnswer(Status(), "ok"));
        }
      }
      for (uint64_t n = random.Below(5); n > 0; --n) DamageSlot(&random);
    };
    const auto answer = client_->Call("x", In(kMs / 10), [&](const Arrival& arrival) {
      EXPECT_GT(arrival.bytes, 0u);
      ++told;
    });
    answered += answer.ok() ? 1 : 0;
    if (answer.ok()) {
      EXPECT_LE(answer->size(), kAnswerBytesMax);
    }
    if (i % 16 == 0) FreeAll();  // slots that the daemon has taken stay taken
  }
  EXPECT_GT(told, 0);
  EXPECT_GT(answered, 0);
  EXPECT_LT(answered, rounds) << "nothing was damaged";
  ExpectThatItWorks();
}

// The daemon may be older or newer than its reader.
TEST(DaemonClient, ReportsADaemonOfAnotherVersion) {
  const test::TempDirectory place;
  auto listener = io::Socket::ListenLocal(place.path(), kDaemonSocket);
  ASSERT_OK(listener.status());
  auto poller = io::Poller::New();
  ASSERT_OK(poller.status());
  ASSERT_OK((*poller)->Add(listener->fd(), 1));
  for (const uint64_t bytes : {uint64_t{4096}, uint64_t{sizeof(QueueLayout)}}) {
    std::thread daemon([&] {
      ASSERT_OK((*poller)->Wait(20'000).status());
      auto reader = listener->Accept();
      ASSERT_OK(reader.status());
      auto memory = io::SealedMemory::Create(bytes);
      ASSERT_OK(memory.status());
      ASSERT_OK(reader->SendDescriptor((*memory)->fd()));
    });
    const Status status = DaemonClient(place.path()).Call(Request(), In(20'000 * kMs)).status();
    daemon.join();
    EXPECT_CODE(status, Code::kUnsupported) << bytes;
    EXPECT_NE(status.message().find("quire-streamd --stop"), std::string::npos) << status.message();
  }
}

// A daemon that accepts no connection, as if by SIGSTOP. First a reader waits for its answer, and
// then, behind as many as the kernel lets wait, for its connection.
TEST(DaemonClient, ReportsThatAStoppedDaemonDidNotAnswerInTime) {
  constexpr uint64_t kTimeoutNs = 100 * kMs;
  constexpr uint64_t kSpareNs = 10'000 * kMs;
  const test::TempDirectory place;
  const auto listener = io::Socket::ListenLocal(place.path(), kDaemonSocket);
  ASSERT_OK(listener.status());
  std::vector<io::Socket> waiting;
  for (bool room = true; room;) {
    const uint64_t begin = In(0);
    const Status status = DaemonClient(place.path()).Call(Request(), begin + kTimeoutNs).status();
    EXPECT_CODE(status, Code::kTimedOut) << waiting.size();
    EXPECT_GE(In(0) - begin, kTimeoutNs);
    EXPECT_LT(In(0) - begin, kTimeoutNs + kSpareNs);
    room = waiting.empty();
    auto one = io::Socket::ConnectLocal(place.path(), kDaemonSocket);
    for (; one.ok(); one = io::Socket::ConnectLocal(place.path(), kDaemonSocket)) {
      waiting.push_back(*std::move(one));
    }
    EXPECT_CODE(one.status(), Code::kBusy);
  }
}

}  // namespace
}  // namespace quire::stream::request_queue_test
