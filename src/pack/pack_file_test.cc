// SPDX-License-Identifier: Apache-2.0
// A pack gives back what its source holds, and refuses to be opened when it is not what it says.
#include "pack/pack_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "family/family.h"
#include "format/tile.h"
#include "pack/gguf_records.h"
#include "pack/pack_records.h"
#include "tests/memory_file.h"
#include "tests/pack_rig.h"
#include "tests/random.h"
#include "tests/tiny_model.h"

namespace estream {
namespace {

// Every value of a matrix part, read through the pack's records, against the source's row.
void ExpectMatrix(const Gguf& source, const MatrixPart& part, std::span<const std::byte> record) {
  const GgufTensor& tensor = source.tensors()[part.source.tensor];
  const MatrixSpec& m = part.spec;
  const uint64_t row_bytes = RowBytes(m.format, m.cols), panel_bytes = MakePanelLayout(m.format, m.cols).bytes;
  std::vector<std::byte> row(row_bytes);
  std::vector<float> expected(m.cols), panel(m.cols * kTileRows);
  for (uint32_t r = 0; r < m.rows; ++r) {
    if (r % kTileRows == 0) {
      const std::byte* at = record.data() + m.offset + r / kTileRows * panel_bytes;
      DecodePanel(m.format, at, m.cols, 0, m.cols, panel.data());
    }
    ASSERT_TRUE(source.ReadTensor(tensor, (part.source.first + r) * row_bytes, row).ok());
    DequantizeRow(m.format, row.data(), expected.data(), m.cols);
    for (uint32_t k = 0; k < m.cols; ++k) {
      ASSERT_EQ(std::memcmp(&panel[kTileRows * k + r % kTileRows], &expected[k], 4), 0)
          << tensor.name << " row " << part.source.first + r << " element " << k;
    }
  }
}

// The same for a vector that stands in the source's order.
void ExpectVector(const Gguf& source, const VectorPart& part, std::span<const std::byte> record) {
  const GgufTensor& tensor = source.tensors()[part.source.tensor];
  const auto format = static_cast<WeightFormat>(tensor.gguf_type);
  const uint64_t row_bytes = RowBytes(format, tensor.cols());
  std::vector<std::byte> rows(part.source.rows * row_bytes);
  std::vector<float> expected(part.spec.count);
  ASSERT_TRUE(source.ReadTensor(tensor, part.source.first * row_bytes, rows).ok());
  DequantizeRow(format, rows.data(), expected.data(), expected.size());
  EXPECT_EQ(std::memcmp(record.data() + part.spec.offset, expected.data(), expected.size() * 4), 0) << tensor.name;
}

void ExpectRecord(const Gguf& source, const RecordPlan& record, RecordSource* records) {
  SCOPED_TRACE(record.name);
  std::vector<std::byte> bytes(record.bytes);
  const Status status = records->ReadRecord(record, bytes);
  ASSERT_TRUE(status.ok()) << status.message();
  for (const MatrixPart& part : record.matrices) ExpectMatrix(source, part, bytes);
  for (const VectorPart& part : record.vectors) ExpectVector(source, part, bytes);
}

// Every matrix value and every embedding row of the pack equals the source's, bit for bit.
void ExpectSameValues(const std::string& source_path, const PackFile& pack) {
  const Gguf source = Gguf::Open(source_path).value();
  const auto records = MakePackRecords(pack, /*check_hashes=*/true);
  const ModelPlan& plan = pack.plan();
  for (uint32_t l = 0; l < plan.layers.size(); ++l) {
    ExpectRecord(source, plan.layers[l].block, records.get());
    for (uint32_t p = 0; plan.layers[l].sparse && p < plan.experts; ++p) {
      ExpectRecord(source, ExpertRecord(plan, l, p), records.get());
    }
  }
  ExpectRecord(source, plan.final_record, records.get());
  ExpectRecord(source, plan.head_record, records.get());

  const GgufTensor& embedding = *source.FindTensor("token_embd.weight");
  std::vector<int32_t> tokens(plan.vocabulary);
  for (size_t t = 0; t < tokens.size(); ++t) tokens[t] = static_cast<int32_t>(tokens.size() - 1 - t);
  const uint64_t row_bytes = embedding.bytes / plan.vocabulary;
  std::vector<std::byte> rows(embedding.bytes), expected(row_bytes);
  ASSERT_TRUE(records->ReadEmbedding(tokens, rows).ok());
  for (size_t t = 0; t < tokens.size(); ++t) {
    ASSERT_TRUE(source.ReadTensor(embedding, static_cast<uint64_t>(tokens[t]) * row_bytes, expected).ok());
    ASSERT_EQ(std::memcmp(rows.data() + t * row_bytes, expected.data(), row_bytes), 0) << "token " << tokens[t];
  }
}

// Names of all stored models, of all families.
std::vector<std::string> StoredModels() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(TestData("models"))) {
    if (entry.path().extension() == ".gguf") names.push_back(entry.path().stem());
  }
  EXPECT_GE(names.size(), 8u);
  return names;
}

TEST(PackFile, GivesTheValuesOfEveryStoredModel) {
  const TempDir dir;
  for (const std::string& name : StoredModels()) {
    SCOPED_TRACE(name);
    const auto pack = MakePack(ModelPath(name), dir.File(name + ".pack"));
    ASSERT_TRUE(pack.ok()) << pack.status().message();
    ExpectSameValues(ModelPath(name), *pack);
  }
}

TEST(PackFile, GivesTheValuesOfEveryFormat) {
  const TempDir dir;
  for (const WeightFormat format : AllWeightFormats()) {
    SCOPED_TRACE(Traits(format).name);
    WriteBinary(dir.File("m.gguf"), TinyModelBytes({.format = format}));
    const auto pack = MakePack(dir.File("m.gguf"), dir.File(std::string(Traits(format).name) + ".pack"));
    ASSERT_TRUE(pack.ok()) << pack.status().message();
    ExpectSameValues(dir.File("m.gguf"), *pack);
  }
}

TEST(PackFile, RecordsEqualThoseMadeFromTheModel) {
  const TempDir dir;
  WriteBinary(dir.File("order"), "3 0 2 1\n1 0 3 2\n");
  for (const char* order : {"", "order"}) {
    const auto pack =
        MakePack(ModelPath("olmoe-m-q4_0"), dir.File(std::string("p") + order), *order != 0 ? dir.File(order) : "");
    ASSERT_TRUE(pack.ok()) << pack.status().message();
    const Gguf source = Gguf::Open(ModelPath("olmoe-m-q4_0")).value();
    ModelPlan plan = PlanModel(source).value();
    for (uint32_t l = 0; l < plan.layers.size(); ++l) plan.layers[l].expert_order = pack->plan().layers[l].expert_order;
    EXPECT_EQ(plan.layers[0].expert_order.empty(), *order == 0);
    const auto made = MakeGgufRecords(source, plan);
    const auto read = MakePackRecords(*pack, false);
    const auto expect = [&](const RecordPlan& record) {
      std::vector<std::byte> a(record.bytes), b(record.bytes);
      ASSERT_TRUE(made->ReadRecord(record, a).ok());
      ASSERT_TRUE(read->ReadRecord(record, b).ok());
      EXPECT_EQ(a, b) << record.name;
    };
    for (uint32_t l = 0; l < plan.layers.size(); ++l) {
      expect(plan.layers[l].block);
      // The record at position p is read from position p of the layer's run of records, whichever expert it is.
      for (uint32_t p = 0; p < plan.experts; ++p) {
        const RecordPlan record = ExpertRecord(plan, l, p);
        expect(record);
        const PackFile::Experts experts = pack->experts(l);
        EXPECT_EQ(pack->Find(record.name)->offset, experts.offset + p * experts.record_bytes);
        EXPECT_EQ(experts.record_bytes, record.bytes);
      }
    }
    expect(plan.final_record);
    expect(plan.head_record);
  }
}

TEST(PackFile, AnyReaderListsItsTensors) {
  const TempDir dir;
  ASSERT_TRUE(MakePack(ModelPath("olmoe-m-q4_0"), dir.File("p")).ok());
  const Gguf gguf = Gguf::Open(dir.File("p")).value();
  EXPECT_EQ(gguf.version(), 3u);
  EXPECT_EQ(gguf.alignment(), 4096u);
  EXPECT_EQ(gguf.String("general.architecture").value(), "estream");
  std::vector<std::string> names;
  for (const GgufTensor& tensor : gguf.tensors()) {
    names.push_back(tensor.name);
    EXPECT_EQ(GgufTypeName(tensor.gguf_type), "I8");
    EXPECT_EQ(tensor.dimensions, 1u);
    EXPECT_EQ(tensor.offset % 4096, 0u);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"embedding", "blk.0.block", "blk.0.experts", "blk.1.block",
                                             "blk.1.experts", "output_norm", "output"}));
  // The source's metadata is all there, but for its architecture and alignment.
  const Gguf source = Gguf::Open(ModelPath("olmoe-m-q4_0")).value();
  for (const auto& [key, value] : source.metadata()) {
    if (key == "general.architecture" || key == "general.alignment") continue;
    const GgufValue* kept = gguf.Find(key);
    ASSERT_NE(kept, nullptr) << key;
    EXPECT_TRUE(std::ranges::equal(kept->bytes(), value.bytes())) << key;
  }
}

TEST(PackFile, ASplitSetGivesThePackOfTheWholeModel) {
  const TempDir dir;
  const auto whole = MakePack(ModelPath("olmoe-m-q4_0"), dir.File("a"));
  const auto split = MakePack(TestData("layouts/olmoe-m-q4_0-00002-of-00002.gguf"), dir.File("b"));
  ASSERT_TRUE(whole.ok() && split.ok());
  EXPECT_EQ(split->gguf().Find("split.count"), nullptr);
  EXPECT_EQ(split->source().file, "olmoe-m-q4_0-00001-of-00002.gguf");
  for (uint64_t u = 0; u < UnitCount(whole->regions()); ++u) EXPECT_EQ(whole->unit_hash(u), split->unit_hash(u)) << u;
  EXPECT_TRUE(split->CheckSource(TestData("layouts/olmoe-m-q4_0-00001-of-00002.gguf")).ok());
}

TEST(PackFile, ATruncatedPackIsRefused) {
  const TempDir dir;
  ASSERT_TRUE(MakePack(ModelPath("olmoe-m-q4_0"), dir.File("p")).ok());
  const std::string bytes = ReadBinary(dir.File("p"));
  for (size_t length = 0; length < bytes.size(); length += length < 8192 ? 97 : 4001) {
    const auto pack = PackFile::Open(std::make_shared<MemoryFile>(bytes.substr(0, length)));
    ASSERT_FALSE(pack.ok()) << length;
    EXPECT_LT(pack.status().message().size(), 300u);
  }
  EXPECT_FALSE(PackFile::Open(std::make_shared<MemoryFile>(bytes.substr(0, bytes.size() - 1))).ok());
  EXPECT_TRUE(PackFile::Open(std::make_shared<MemoryFile>(bytes)).ok());
}

// Every byte matters: with any one changed, the pack is refused or its check names what is damaged.
TEST(PackFile, AnyFlippedByteIsFound) {
  const TempDir dir;
  ASSERT_TRUE(MakePack(ModelPath("olmoe-m-q4_0"), dir.File("p")).ok());
  std::string bytes = ReadBinary(dir.File("p"));
  const PackFile sound = PackFile::Open(dir.File("p")).value();
  for (size_t at = 0; at < bytes.size(); at += at < 9000 ? 13 : 1999) {
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    const auto pack = PackFile::Open(std::make_shared<MemoryFile>(bytes));
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    if (!pack.ok()) {
      EXPECT_LT(at, sound.embedding().offset) << pack.status().message();
      continue;
    }
    std::vector<std::string> bad;
    const Status status = pack->Verify({.threads = 1}, &bad);
    ASSERT_EQ(status.code(), StatusCode::kCorrupt) << "byte " << at;
    ASSERT_FALSE(bad.empty());
    EXPECT_NE(status.message().find(bad[0]), std::string::npos);
    if (at < sound.embedding().offset) {
      EXPECT_EQ(bad[0], "the header") << at;
    }
  }
}

TEST(PackFile, DamageIsNamedByRecord) {
  const TempDir dir;
  WriteBinary(dir.File("order"), "3 0 2 1\n1 0 3 2\n");
  ASSERT_TRUE(MakePack(ModelPath("olmoe-m-q4_0"), dir.File("p"), dir.File("order")).ok());
  std::string bytes = ReadBinary(dir.File("p"));
  const PackFile sound = PackFile::Open(dir.File("p")).value();
  for (const char* name : {"blk.0", "blk.1.expert.3", "blk.0.expert.3", "output_norm", "output"}) {
    const uint64_t at = sound.Find(name)->offset + 77;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    const auto pack = PackFile::Open(std::make_shared<MemoryFile>(bytes));
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    ASSERT_TRUE(pack.ok());
    std::vector<std::string> bad;
    EXPECT_EQ(pack->Verify({.threads = 2}, &bad).code(), StatusCode::kCorrupt);
    const std::string expected = std::string(name) == "blk.0" ? "blk.0.block" : name;
    EXPECT_EQ(bad, std::vector<std::string>{expected});

    const auto records = MakePackRecords(*pack, /*check_hashes=*/true);
    const RecordPlan record = [&] {
      const auto id = FindRecord(pack->plan(), name);
      if (id->kind == RecordKind::kBlock) return pack->plan().layers[0].block;
      if (id->kind == RecordKind::kFinalNorm) return pack->plan().final_record;
      if (id->kind == RecordKind::kHead) return pack->plan().head_record;
      for (uint32_t p = 0; p < pack->plan().experts; ++p) {
        if (ExpertRecord(pack->plan(), id->layer, p).name == name) return ExpertRecord(pack->plan(), id->layer, p);
      }
      return RecordPlan{};
    }();
    std::vector<std::byte> out(record.bytes);
    const Status status = records->ReadRecord(record, out);
    EXPECT_EQ(status.code(), StatusCode::kCorrupt);
    EXPECT_NE(status.message().find(expected), std::string::npos) << status.message();
    EXPECT_TRUE(MakePackRecords(*pack, false)->ReadRecord(record, out).ok());
  }
  bytes += std::string(4096, '\0');
  std::vector<std::string> bad;
  EXPECT_FALSE(PackFile::Open(std::make_shared<MemoryFile>(bytes))->Verify({}, &bad).ok());
  EXPECT_EQ(bad, std::vector<std::string>{"its end (4096 bytes behind the last tensor)"});
}

TEST(PackFile, CheckedEmbeddingRowsNoticeDamageInTheirUnit) {
  const TempDir dir;
  ASSERT_TRUE(MakePack(ModelPath("olmoe-m-q4_0"), dir.File("p")).ok());
  std::string bytes = ReadBinary(dir.File("p"));
  bytes[PackFile::Open(dir.File("p"))->embedding().offset + 5] ^= 1;
  const PackFile pack = PackFile::Open(std::make_shared<MemoryFile>(bytes)).value();
  const std::vector<int32_t> tokens = {3};
  std::vector<std::byte> row(RowBytes(pack.plan().embedding.format, pack.plan().hidden));
  EXPECT_EQ(MakePackRecords(pack, true)->ReadEmbedding(tokens, row).code(), StatusCode::kCorrupt);
  EXPECT_TRUE(MakePackRecords(pack, false)->ReadEmbedding(tokens, row).ok());
}

TEST(PackFile, AModelIsNoPack) {
  const auto pack = PackFile::Open(ModelPath("olmoe-m-q4_0"));
  EXPECT_EQ(pack.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(pack.status().message().find("not a pack"), std::string::npos) << pack.status().message();
}

TEST(PackFile, AStalePackIsRefused) {
  const TempDir dir;
  const std::string source = dir.File("m.gguf");
  const std::string sound = ReadBinary(ModelPath("olmoe-m-q4_0"));
  WriteBinary(source, sound);
  const auto pack = MakePack(source, dir.File("p"));
  ASSERT_TRUE(pack.ok());
  EXPECT_TRUE(pack->CheckSource(source).ok());
  struct stat info;
  ASSERT_EQ(stat(source.c_str(), &info), 0);
  const timespec times[] = {info.st_mtim, info.st_mtim};
  const auto rewrite = [&](const std::string& bytes) {
    WriteBinary(source, bytes);
    ASSERT_EQ(utimensat(AT_FDCWD, source.c_str(), times, 0), 0);
  };

  rewrite(sound + "x");
  EXPECT_NE(pack->CheckSource(source).message().find("bytes"), std::string::npos);
  std::string other_header = sound;
  other_header[sound.find("rms_epsilon") + 11 + 4] ^= 1;
  rewrite(other_header);
  EXPECT_NE(pack->CheckSource(source).message().find("header"), std::string::npos);
  rewrite(sound);
  EXPECT_TRUE(pack->CheckSource(source).ok());
  const timespec later[] = {{info.st_mtim.tv_sec + 1, 0}, {info.st_mtim.tv_sec + 1, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, source.c_str(), later, 0), 0);
  const Status changed = pack->CheckSource(source);
  EXPECT_EQ(changed.code(), StatusCode::kCorrupt);
  EXPECT_NE(changed.message().find("was changed after it was packed"), std::string::npos) << changed.message();
  ASSERT_EQ(unlink(source.c_str()), 0);
  EXPECT_EQ(pack->CheckSource(source).code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace estream
